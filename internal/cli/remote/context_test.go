package remote

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestPrecedence checks which cluster and credentials a command uses: flags, then the context of
// --context, the environment, another context, and the defaults. A current context is left out if a
// flag or the environment says where the nodes are.
func TestPrecedence(t *testing.T) {
	path := filepath.Join(t.TempDir(), "quorate", "config.yaml")
	t.Setenv(ConfigVariable, path)
	c := &Config{Current: "cur", Contexts: []Context{
		{Name: "cur", Addresses: []string{"cur:1"}, TLSDir: "/cur", TokenFile: "/cur.token"},
		{Name: "other", Addresses: []string{"other:1"}, TLSDir: "/other"},
		{Name: "open", Addresses: []string{"open:1"}},
	}}
	if err := c.Write(); err != nil {
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
			if got := strings.Join([]string{strings.Join(addrs, ","), tgt.TLSDirectory(), tgt.BearerFile()}, " "); err != nil || got != c.want {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
		})
	}
}
