package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"go.yaml.in/yaml/v4"

	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/syncdir"
)

// Environment variables of contexts.
const (
	ContextVariable = "QUORATE_CONTEXT" // name of the context to use instead of the current one
	ConfigVariable  = "QUORATE_CONFIG"  // path of the file with the contexts
)

// Bounds of the file with the contexts.
const (
	maxConfig      = 1 << 20 // bytes
	maxContexts    = 1000
	maxContextName = 64 // bytes
)

// Context names a cluster: where its nodes are, and the credentials for it.
type Context struct {
	Name      string   `json:"name" yaml:"name"`
	Addresses []string `json:"addresses" yaml:"addresses,flow"`
	TLSDir    string   `json:"tls_dir" yaml:"tls_dir,omitempty"`
	TokenFile string   `json:"token_file" yaml:"token_file,omitempty"`
}

// Config is the file with the contexts.
type Config struct {
	// Current is the name of the context that commands use; empty for none.
	Current  string    `json:"current" yaml:"current,omitempty"`
	Contexts []Context `json:"contexts" yaml:"contexts"`
}

// ConfigPath returns the path of the file with the contexts.
func ConfigPath() (string, error) {
	if path := os.Getenv(ConfigVariable); path != "" {
		return path, nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("%s: %w", ConfigVariable, err)
	}
	return filepath.Join(dir, "quorate", "config.yaml"), nil
}

// ReadConfig reads the file with the contexts. A file that does not exist has none.
func ReadConfig() (*Config, error) {
	path, err := ConfigPath()
	if err != nil {
		return &Config{}, nil //nolint:nilerr // a user without a home directory has no contexts
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &Config{}, nil
	}
	if err != nil {
		return nil, exit.Invalid(fmt.Errorf("contexts: %w", err))
	}
	defer f.Close() //nolint:errcheck // it was only read
	data, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err == nil && len(data) > maxConfig {
		err = fmt.Errorf("is larger than %d bytes", maxConfig)
	}
	c := &Config{}
	if err == nil && len(bytes.TrimSpace(data)) > 0 {
		d := yaml.NewDecoder(bytes.NewReader(data))
		d.KnownFields(true)
		if err = d.Decode(c); errors.Is(err, io.EOF) { // it has only comments
			err = nil
		}
	}
	if err == nil {
		err = c.validate()
	}
	if err != nil {
		text := unknownField.ReplaceAllString(strings.TrimPrefix(err.Error(), "yaml: construct errors: "), "unknown field $1")
		return nil, exit.Errorf(exit.Usage, "contexts in %s: %s", path, text)
	}
	return c, nil
}

// unknownField matches the words of the YAML library for a field that a struct does not have.
var unknownField = regexp.MustCompile(`field (\S+) not found in type [\w.]+`)

// Find returns the context of a name, or nil.
func (c *Config) Find(name string) *Context {
	i := slices.IndexFunc(c.Contexts, func(x Context) bool { return x.Name == name })
	if i < 0 {
		return nil
	}
	return &c.Contexts[i]
}

// Missing returns the error for a name that no context has.
func (c *Config) Missing(name string) error {
	names := make([]string, len(c.Contexts))
	for i := range c.Contexts {
		names[i] = c.Contexts[i].Name
	}
	have := "no contexts yet; create one with \"quorate context set NAME --addr HOST:PORT\""
	if len(names) > 0 {
		have = "known: " + strings.Join(names, ", ")
	}
	return exit.Errorf(exit.NotFound, "unknown context %q; %s", name, have)
}

// validate returns the first mistake, with the field and the value.
func (c *Config) validate() error {
	if len(c.Contexts) > maxContexts {
		return fmt.Errorf("contexts: %d; at most %d", len(c.Contexts), maxContexts)
	}
	for i := range c.Contexts {
		x := &c.Contexts[i]
		if err := x.Validate(); err != nil {
			return fmt.Errorf("contexts[%d].%w", i, err)
		}
		if c.Find(x.Name) != x {
			return fmt.Errorf("contexts[%d].name: %q: is a duplicate", i, x.Name)
		}
	}
	if c.Current != "" && c.Find(c.Current) == nil {
		return fmt.Errorf("current: %q: unknown context", c.Current)
	}
	return nil
}

// Validate returns the first mistake of a context, with the field and the value.
func (x *Context) Validate() error {
	if x.Name == "" || len(x.Name) > maxContextName || strings.ContainsFunc(x.Name, func(r rune) bool { return r <= ' ' || r > '~' }) || x.Name[0] == '-' {
		return fmt.Errorf("name: %q: must be 1 to %d printable ASCII characters without spaces, the first no hyphen", x.Name, maxContextName)
	}
	if len(x.Addresses) == 0 || len(x.Addresses) > MaxNodes {
		return fmt.Errorf("addresses: %d; must be 1 to %d of the form host:port, such as 127.0.0.1:7412", len(x.Addresses), MaxNodes)
	}
	for i, a := range x.Addresses {
		if !IsAddress(a) {
			return fmt.Errorf("addresses[%d]: %q: must be host:port, such as 127.0.0.1:7412", i, a)
		}
	}
	if x.TokenFile != "" && x.TLSDir == "" {
		return errors.New("token_file: a token is sent only over TLS; name the CA with tls_dir")
	}
	return nil
}

// lockWait bounds how long ChangeConfig waits for another process that changes the file.
const lockWait = 10 * time.Second

// ChangeConfig reads the contexts, changes them, and replaces their file. Processes that change it at
// the same time do so one after the other; a file beside it, config.yaml.lock, is their lock. If the
// path is a symbolic link, the file that it points to is replaced, and locked there.
func ChangeConfig(ctx context.Context, change func(*Config) error) error {
	path, err := ConfigPath()
	if err == nil {
		path, err = throughLinks(path)
	}
	if err != nil {
		return exit.Invalid(fmt.Errorf("contexts: %w", err))
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return exit.Invalid(err)
	}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	lock := flock.New(path+".lock", flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, 10*time.Millisecond); err != nil {
		return exit.Invalid(fmt.Errorf("contexts in %s: another process has locked them: %w", path, err))
	}
	defer func() { _ = lock.Close() }() // ends with the process, too
	c, err := ReadConfig()
	if err != nil {
		return err
	}
	if err := change(c); err != nil {
		return err
	}
	return c.write(path)
}

// write replaces the file with the contexts, readable by its owner only.
func (c *Config) write(path string) error {
	if err := c.validate(); err != nil {
		return exit.Invalid(err)
	}
	data, err := yaml.Marshal(c)
	if err != nil {
		return err
	}
	return syncdir.WriteFile(path, data)
}

// maxLinks bounds how many symbolic links lead to the file, as most systems do.
const maxLinks = 40

// throughLinks returns the path that symbolic links lead to. The last file need not exist.
func throughLinks(path string) (string, error) {
	for range maxLinks {
		to, err := os.Readlink(path)
		if err != nil {
			return path, nil //nolint:nilerr // no link, or no file
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	return "", fmt.Errorf("%s: too many symbolic links", path)
}

// settle finds the context of a command, once. Its error names the context or the field at fault.
func (t *Targets) settle() error {
	t.settled.Do(func() {
		name, explicit := t.contextName, t.contextName != ""
		if !explicit {
			if len(t.Addrs) > 0 || t.local() || os.Getenv(AddrVariable) != "" {
				return // another cluster than that of the context
			}
			name = os.Getenv(ContextVariable)
		}
		c, err := ReadConfig()
		if err != nil {
			t.unsettled = err
			return
		}
		if name == "" {
			name = c.Current
		}
		if name == "" {
			return
		}
		if t.context = c.Find(name); t.context == nil {
			t.unsettled = c.Missing(name)
		}
	})
	return t.unsettled
}

// local reports whether a flag says that the nodes are on this machine.
func (t *Targets) local() bool {
	return t.flags != nil && (t.flags.Changed("base-port") || t.flags.Changed("nodes"))
}

// choose returns the value of a setting: a flag's; else that of a context named by --context, the
// environment, or another context, in this order. from names the source.
func (t *Targets) choose(name, flag, variable string, of func(*Context) string) (value, from string) {
	_ = t.settle() // Resolve and Credentials return the error
	in := ""
	if t.context != nil {
		in = of(t.context)
	}
	env := os.Getenv(variable)
	switch {
	case flag != "":
		return flag, "--" + name
	case in != "" && (env == "" || t.contextName != ""):
		return in, fmt.Sprintf("context %s: %s", t.context.Name, strings.ReplaceAll(name, "-", "_"))
	}
	return env, variable
}

// TLSDirectory returns the directory with the credentials, empty without TLS, and what named it.
func (t *Targets) TLSDirectory() (dir, from string) {
	return t.choose("tls-dir", t.tlsDir, "QUORATE_TLS_DIR", func(x *Context) string { return x.TLSDir })
}

// BearerFile returns the file with the bearer token, empty without one, and what named it.
func (t *Targets) BearerFile() (file, from string) {
	return t.choose("token-file", t.tokenFile, "QUORATE_TOKEN_FILE", func(x *Context) string { return x.TokenFile })
}
