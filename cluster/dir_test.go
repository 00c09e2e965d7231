package cluster

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/cluster/raftgroup/sharedlog"
	"github.com/quorate/quorate/internal/quota"
)

func TestDirectoryOfAnother(t *testing.T) {
	c := newThreeNodes(t, 4, quick)
	for _, tc := range []struct {
		name string
		edit func(*Config)
		want string
		stop bool // stop the owner first
	}{
		{"in use", func(*Config) {}, "is in use by another process", false},
		{"node", func(cfg *Config) { cfg.Self = "n2" }, `belongs to node "n1", not "n2"`, true},
		{"cluster", func(cfg *Config) { cfg.Cluster = "other" }, `belongs to cluster "test", not "other"`, true},
		{"ranges", func(cfg *Config) { cfg.Ranges = 8 }, "has 4 ranges, not 8", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if n := c.nodes["n1"]; tc.stop && n != nil {
				c.kill("n1")
			}
			addrs := c.addrs
			c.addrs = map[quota.NodeID]string{"n1": "127.0.0.1:0", "n2": addrs["n2"], "n3": addrs["n3"]}
			cfg := c.config("n1", nil)
			c.addrs = addrs
			tc.edit(&cfg)
			if n, err := Start(cfg); err == nil {
				_ = n.Kill()
				t.Fatal("started")
			} else if !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), cfg.Dir) {
				t.Errorf("got %q; want %q and the directory", err, tc.want)
			}
			_ = cfg.Listener.Close()
		})
	}
	path := filepath.Join(c.dir, "n1", "node.json")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := c.config("n1", nil)
	if _, err := Start(cfg); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("broken node.json: %v", err)
	}
	_ = cfg.Listener.Close()
}

func TestIncarnationsRise(t *testing.T) {
	cfg := Config{Cluster: "c", Self: "n1", Ranges: 1, Dir: filepath.Join(t.TempDir(), "deep", "data")}
	var last quota.Incarnation
	for range 3 {
		lock, s, err := openDir(&cfg)
		if err != nil {
			t.Fatal(err)
		}
		if s.inc <= last || s.prior != last {
			t.Errorf("incarnation %d, said to follow %d, after %d", s.inc, s.prior, last)
		}
		last = s.inc
		if err := lock.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStaysJoined checks that a node that has joined never creates a cluster, even if it ended
// before it received anything from the cluster that it joined.
func TestStaysJoined(t *testing.T) {
	dir := t.TempDir()
	open := func(cfg Config) Config {
		t.Helper()
		cfg.Cluster, cfg.Self, cfg.Ranges, cfg.Dir = "c", "n2", 1, dir
		lock, _, err := openDir(&cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := lock.Close(); err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	open(Config{Join: true, Nodes: map[quota.NodeID]string{"n1": "a:1", "n2": "b:2"}})
	for range 2 {
		got := open(Config{Nodes: map[quota.NodeID]string{"n2": "c:3"}})
		if want := map[quota.NodeID]string{"n1": "a:1", "n2": "c:3"}; !got.Join || !maps.Equal(got.Nodes, want) {
			t.Errorf("joins: %v, nodes %v; want %v", got.Join, got.Nodes, want)
		}
	}
}

// TestFirstIncarnation checks that the first start that created logs identifies the data until
// the logs are gone, and that data of an earlier version have no identity.
func TestFirstIncarnation(t *testing.T) {
	cfg := Config{Cluster: "c", Self: "n1", Ranges: 1, Dir: t.TempDir()}
	open := func() (inc, first quota.Incarnation) {
		t.Helper()
		lock, s, err := openDir(&cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := lock.Close(); err != nil {
			t.Fatal(err)
		}
		return s.inc, s.first
	}
	if inc, first := open(); first != inc {
		t.Errorf("new data: first %d of %d", first, inc)
	}
	inc, made := open()
	if made != inc {
		t.Errorf("no logs yet: first %d of %d", made, inc)
	}
	logs := filepath.Join(cfg.Dir, "raft")
	if err := os.MkdirAll(logs, 0o700); err != nil {
		t.Fatal(err)
	}
	writeLog := func(f func(*sharedlog.Group) error) {
		t.Helper()
		l, err := sharedlog.Open(filepath.Join(logs, "log.db"), sharedlog.Options{})
		if err != nil {
			t.Fatal(err)
		}
		g, err := l.Group(raftgroup.MetaGroup)
		if err := errors.Join(err, f(g), l.Close()); err != nil {
			t.Fatal(err)
		}
	}
	writeLog(func(*sharedlog.Group) error { return nil })
	inc, made = open() // a node that was refused has a log that holds nothing
	if made != inc {
		t.Errorf("a log of nothing: first %d of %d", made, inc)
	}
	writeLog(func(g *sharedlog.Group) error { return g.Found(3, nil) })
	for range 2 {
		if inc, first := open(); first != made || inc <= first {
			t.Errorf("with logs: first %d, want %d, of %d", first, made, inc)
		}
	}
	if err := os.RemoveAll(logs); err != nil {
		t.Fatal(err)
	}
	if inc, first := open(); first != inc {
		t.Errorf("the logs are gone: first %d of %d", first, inc)
	}
}

func TestConfigFaults(t *testing.T) {
	err := (&Config{Cluster: "a b", Self: "n1", Ranges: 1000, Replicas: 2}).Validate()
	if err == nil {
		t.Fatal("valid")
	}
	for _, want := range []string{"cluster:", "node:", "ranges: 1000", "replicas: 2", "listener:"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
}

// TestDamagedLog checks that a node with a damaged log does not start, names the file, and stops what
// it had started.
func TestDamagedLog(t *testing.T) {
	c := newThreeNodes(t, 4, quick)
	c.kill("n3")
	path := filepath.Join(c.dir, "n3", "raft", "log.db")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, whole[:2*os.Getpagesize()], 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := c.config("n3", nil)
	began := time.Now()
	n, err := Start(cfg)
	if err == nil {
		_ = n.Kill()
	}
	if err == nil || !strings.Contains(err.Error(), path) {
		t.Fatalf("started with a damaged log after %v: %v; want an error that names %s", time.Since(began), err, path)
	}
}
