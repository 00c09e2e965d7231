package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/config"
)

// TestPlaceOver checks that flags change the existing settings that they name, and nothing else.
func TestPlaceOver(t *testing.T) {
	had := config.Listen{HTTP: "10.0.0.1:1", GRPC: "10.0.0.1:2", Peer: "10.0.0.1:3"}
	for name, c := range map[string]struct {
		flags     string
		want      config.Listen
		advertise string
		err       string
	}{
		"none":     {"", had, "10.0.0.1", ""},
		"port":     {"--peer :9", config.Listen{HTTP: had.HTTP, GRPC: had.GRPC, Peer: "10.0.0.1:9"}, "10.0.0.1", ""},
		"host":     {"--host 10.0.0.2", config.Listen{HTTP: "10.0.0.2:1", GRPC: "10.0.0.2:2", Peer: "10.0.0.2:3"}, "10.0.0.2", ""},
		"both":     {"--host ::1 --grpc :8", config.Listen{HTTP: "[::1]:1", GRPC: "[::1]:8", Peer: "[::1]:3"}, "::1", ""},
		"any":      {"--peer 0.0.0.0:7 --host 10.0.0.2", config.Listen{HTTP: "10.0.0.2:1", GRPC: "10.0.0.2:2", Peer: "0.0.0.0:7"}, "10.0.0.2", ""},
		"all":      {"--http 0.0.0.0:6 --host 10.0.0.2", config.Listen{HTTP: "0.0.0.0:6", GRPC: "10.0.0.2:2", Peer: "10.0.0.2:3"}, "10.0.0.2", ""},
		"its name": {"--node n2", had, "10.0.0.1", ""},
		"another":  {"--node n3", had, "", "--node n3: the node here is n2; a node keeps its name"},
		"zone":     {"--zone a/b", had, "", `--zone: is "a/b"; must be 1 to 128 of the characters a-z A-Z 0-9 . _ - that begin with a letter or digit`},
		"no host":  {"--host 10.0.0.2:5", had, "", `--host: is "10.0.0.2:5"; must be a host without a port, such as 10.0.0.1 or n1.example.com`},
		"too high": {"--http :70000", had, "", `--http: is "10.0.0.1:70000"; must be host:port, such as 127.0.0.1:7411 or :7411`},
		"no port":  {"--http 10.0.0.1", had, "", `--http "10.0.0.1": must be host:port or :port`},
	} {
		t.Run(name, func(t *testing.T) {
			p := &placeFlags{}
			cmd := &cobra.Command{}
			p.add(cmd)
			if err := cmd.ParseFlags(strings.Fields(c.flags)); err != nil {
				t.Fatal(err)
			}
			s := config.Node{Node: "n2", Advertise: "10.0.0.1", Listen: had}
			err := p.over(&s)
			if c.err != "" {
				if err == nil || err.Error() != c.err {
					t.Fatalf("%v; want %s", err, c.err)
				}
				return
			}
			if err != nil || s.Listen != c.want || s.Advertise != c.advertise {
				t.Errorf("%+v, %s, %v; want %+v, %s", s.Listen, s.Advertise, err, c.want, c.advertise)
			}
		})
	}
}

// TestVariableKeepsTheName checks that QUORATE_NODE does not rename the node of a data directory.
func TestVariableKeepsTheName(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, SettingsFile), []byte("node: n1\ndata: .\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := &cobra.Command{}
	o := &serveOptions{}
	o.add(cmd)
	if err := cmd.ParseFlags([]string{"--data", dir}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("QUORATE_NODE", "n1")
	if s, _, err := o.load(); err != nil || s.Node != "n1" {
		t.Errorf("node %s, %v; want n1", s.Node, err)
	}
	t.Setenv("QUORATE_NODE", "other")
	const want = "QUORATE_NODE=other: the node here is n1; a node keeps its name"
	if _, _, err := o.load(); err == nil || err.Error() != want {
		t.Errorf("%v; want %s", err, want)
	}
}
