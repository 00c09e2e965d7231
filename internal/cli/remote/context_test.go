package remote

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"
)

// TestPrecedence checks which cluster and credentials a command uses: flags, then the context of
// --context, the environment, another context, and the defaults. A current context is left out if a
// flag or the environment says where the nodes are.
func TestPrecedence(t *testing.T) {
	path := filepath.Join(t.TempDir(), "quorate", "config.yaml")
	t.Setenv(ConfigVariable, path)
	err := ChangeConfig(t.Context(), func(c *Config) error {
		*c = Config{Current: "cur", Contexts: []Context{
			{Name: "cur", Addresses: []string{"cur:1"}, TLSDir: "/cur", TokenFile: "/cur.token"},
			{Name: "other", Addresses: []string{"other:1"}, TLSDir: "/other"},
			{Name: "open", Addresses: []string{"open:1"}},
		}}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; want mode 0600", info.Mode(), err)
	}
	for name, c := range map[string]struct {
		flags              string
		addr, context, tls string // of the environment
		want               string // address, TLS directory, token file
	}{
		"current context":          {"", "", "", "", "cur:1 /cur /cur.token"},
		"QUORATE_CONTEXT":          {"", "", "other", "", "other:1 /other "},
		"--context":                {"--context other", "", "cur", "", "other:1 /other "},
		"--context and address":    {"--context other --addr a:1", "", "", "", "a:1 /other "},
		"--context, environment":   {"--context other", "env:1", "", "/env", "other:1 /other "},
		"--context without TLS":    {"--context open", "", "", "/env", "open:1 /env "},
		"--context and --tls-dir":  {"--context other --tls-dir /flag", "", "", "/env", "other:1 /flag "},
		"environment over current": {"", "", "", "/env", "cur:1 /env /cur.token"},
		"QUORATE_ADDR":             {"", "env:1", "", "", "env:1  "},
		"--addr":                   {"--addr a:1", "env:1", "cur", "", "a:1  "},
		"--nodes":                  {"--nodes 1", "", "cur", "", "127.0.0.1:7412  "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(AddrVariable, c.addr)
			t.Setenv(ContextVariable, c.context)
			t.Setenv("QUORATE_TLS_DIR", c.tls)
			t.Setenv("QUORATE_TOKEN_FILE", "")
			var tgt Targets
			cmd := &cobra.Command{}
			tgt.AddFlags(cmd)
			if err := cmd.ParseFlags(strings.Fields(c.flags)); err != nil {
				t.Fatal(err)
			}
			addrs, err := tgt.Resolve()
			dir, _ := tgt.TLSDirectory()
			file, _ := tgt.BearerFile()
			if got := strings.Join([]string{strings.Join(addrs, ","), dir, file}, " "); err != nil || got != c.want {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
		})
	}
}

// TestChangesAtOnce checks that no change of the contexts is lost to another at the same time.
func TestChangesAtOnce(t *testing.T) {
	t.Setenv(ConfigVariable, filepath.Join(t.TempDir(), "quorate", "config.yaml"))
	const changes = 20
	var wg sync.WaitGroup
	for i := range changes {
		wg.Go(func() {
			err := ChangeConfig(t.Context(), func(c *Config) error {
				c.Contexts = append(c.Contexts, Context{Name: fmt.Sprint("c", i), Addresses: []string{"n1:7412"}})
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	c, err := ReadConfig()
	if err != nil || len(c.Contexts) != changes {
		t.Errorf("%d contexts after %d changes; %v", len(c.Contexts), changes, err)
	}
}

// TestContextsBehindLinks checks that a change of the contexts goes through symbolic links, also to a
// file that does not exist yet, and that a ring of links is an error.
func TestContextsBehindLinks(t *testing.T) {
	dir := t.TempDir()
	link := func(to, at string) {
		if err := os.Symlink(to, filepath.Join(dir, at)); err != nil {
			if runtime.GOOS == "windows" {
				t.Skip("links need a privilege: ", err)
			}
			t.Fatal(err)
		}
	}
	link("second", "first")
	link(filepath.Join("dotfiles", "contexts.yaml"), "second")
	link("ring", "ring")
	t.Setenv(ConfigVariable, filepath.Join(dir, "first"))
	for i := range 2 {
		err := ChangeConfig(t.Context(), func(c *Config) error {
			c.Contexts = append(c.Contexts, Context{Name: fmt.Sprint("c", i), Addresses: []string{"n1:7412"}})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"first", "second"} {
		if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || info.Mode()&os.ModeSymlink == 0 {
			t.Errorf("%s: %v, %v; want the link to stay", name, info, err)
		}
	}
	if info, err := os.Lstat(filepath.Join(dir, "dotfiles", "contexts.yaml")); err != nil || !info.Mode().IsRegular() {
		t.Errorf("%v, %v; want the contexts in the file that the links lead to", info, err)
	}
	if c, err := ReadConfig(); err != nil || len(c.Contexts) != 2 {
		t.Errorf("%v, %v; want both contexts", c, err)
	}
	t.Setenv(ConfigVariable, filepath.Join(dir, "ring"))
	if err := ChangeConfig(t.Context(), func(*Config) error { return nil }); err == nil || !strings.Contains(err.Error(), "too many symbolic links") {
		t.Errorf("%v; want an error about links", err)
	}
}

// TestContextsOfComments checks that a file with nothing but comments has no contexts.
func TestContextsOfComments(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte("# contexts: none yet\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(ConfigVariable, path)
	if c, err := ReadConfig(); err != nil || len(c.Contexts) != 0 {
		t.Errorf("%v, %v; want no contexts", c, err)
	}
}
