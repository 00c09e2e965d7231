package remote

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestTargets checks the precedence of addresses: flags, then the environment, then this machine's
// default ports.
func TestTargets(t *testing.T) {
	at7400 := []string{"127.0.0.1:7412", "127.0.0.1:7422", "127.0.0.1:7432"}
	for name, c := range map[string]struct {
		flags, env string
		want       []string
		err        string
	}{
		"nothing":      {"", "", at7400, ""},
		"environment":  {"", "a:1, b:2", []string{"a:1", "b:2"}, ""},
		"address":      {"--addr c:3", "a:1", []string{"c:3"}, ""},
		"base port":    {"--base-port 7400", "a:1", at7400, ""},
		"nodes":        {"--nodes 1", "a:1", at7400[:1], ""},
		"no port":      {"", "a", nil, `QUORATE_ADDR "a": must be host:port`},
		"no port flag": {"--addr c", "a:1", nil, `--addr "c": must be host:port`},
		"too many":     {"", strings.Repeat("a:1,", 100) + "a:1", nil, "QUORATE_ADDR: 101 addresses; at most 100"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(AddrVariable, c.env)
			var tgt Targets
			cmd := &cobra.Command{}
			tgt.AddFlags(cmd)
			if err := cmd.ParseFlags(strings.Fields(c.flags)); err != nil {
				t.Fatal(err)
			}
			got, err := tgt.Resolve()
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("%v; want %s", err, c.err)
				}
				return
			}
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%v, %v; want %v", got, err, c.want)
			}
		})
	}
}
