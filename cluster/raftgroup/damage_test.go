package raftgroup

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster/raftgroup/sharedlog"
	"github.com/quorate/quorate/internal/quota"
)

// damagedNode runs a node with a single group until it has written two snapshots and a log, then
// stops it. It returns the node and its log and snapshot directory.
func damagedNode(t *testing.T) (c *cluster, m *member, log, snaps string) {
	t.Helper()
	c = newGrowing(t, 1, nil)
	m = c.members[0]
	for range 2 {
		c.apply(0, 50)
		if err := m.groups[0].Snapshot(within(t, patience)); err != nil {
			t.Fatal(err)
		}
	}
	c.apply(0, 10)
	_ = m.net.Close()
	if err := m.host.Kill(); err != nil {
		t.Fatal(err)
	}
	m.host = nil
	return c, m, logPath(m.dir), filepath.Join(snapshotDir(m.dir, 0), "snapshots")
}

// reopenAlone opens the group of a stopped node, without links to other nodes.
func reopenAlone(t *testing.T, m *member) (*machine, error) {
	t.Helper()
	sm := &machine{}
	h, err := New(Config{Self: m.id, Dir: m.dir, Net: m.net})
	if err != nil {
		return sm, err
	}
	g, err := h.Open(GroupOptions{ID: 0, Voters: []quota.NodeID{m.id}, FSM: sm, FirstEntry: func() []byte { return []byte("barrier") }})
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		for ; ctx.Err() == nil; time.Sleep(time.Millisecond) {
			if _, _, serving := g.Leader(); serving {
				break
			}
		}
	}
	if err := h.Kill(); err != nil {
		t.Error(err)
	}
	return sm, err
}

// TestDamageIsRefused checks that unusable files cause an error that names them.
func TestDamageIsRefused(t *testing.T) {
	t.Parallel()
	truncate := func(size int64) func(string) error {
		return func(path string) error { return os.Truncate(path, size) }
	}
	newestState := func(f func(string) error) func(string) error {
		return func(dir string) error {
			ids, err := filepath.Glob(filepath.Join(dir, "*"))
			if err != nil || len(ids) != 2 {
				return errors.New("not two snapshots")
			}
			newest := slices.MaxFunc(ids, func(a, b string) int {
				return cmp.Compare(snapshotIndex(filepath.Base(a)), snapshotIndex(filepath.Base(b)))
			})
			return f(filepath.Join(newest, "state.bin"))
		}
	}
	for _, tc := range []struct {
		name      string
		log, snap func(string) error
		names     string // expected in the error; "" means no error and complete state
	}{
		{name: "empty log", log: truncate(0), names: "log.db"},
		{name: "half a page of log", log: truncate(2048), names: "log.db"},
		{name: "log cut in the middle", log: truncate(3 * 4096), names: "log.db"},
		{name: "no log", log: os.Remove, names: "log.db"},
		{name: "log without the group", log: eraseLog, names: "log.db"},
		{name: "log of another kind", log: func(p string) error { return os.WriteFile(p, []byte(strings.Repeat("nonsense", 4096)), 0o600) }, names: "log.db"},
		{name: "newest snapshot cut", snap: newestState(truncate(10))},
		{name: "newest snapshot changed", snap: newestState(flip)},
		{name: "newest snapshot without meta", snap: newestState(func(p string) error { return os.Remove(filepath.Join(filepath.Dir(p), "meta.json")) })},
		{name: "newest snapshot cut, log too short", log: emptyLog, snap: newestState(truncate(10)), names: "state.bin"},
		{name: "no snapshot readable, log too short", log: emptyLog, snap: func(dir string) error {
			ids, _ := filepath.Glob(filepath.Join(dir, "*"))
			return errors.Join(flip(filepath.Join(ids[0], "state.bin")), flip(filepath.Join(ids[1], "state.bin")))
		}, names: "CRC"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, m, log, snaps := damagedNode(t)
			_ = c
			if tc.log != nil {
				if err := tc.log(log); err != nil {
					t.Fatal(err)
				}
			}
			if tc.snap != nil {
				if err := tc.snap(snaps); err != nil {
					t.Fatal(err)
				}
			}
			sm, err := reopenAlone(t, m)
			switch {
			case tc.names == "":
				if got := sm.get().Count; err != nil || got != 110 {
					t.Errorf("%d entries, %v", got, err)
				}
			case !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), tc.names) || !strings.Contains(err.Error(), "restore a backup"):
				t.Errorf("error: %v", err)
			default:
				t.Log(err)
			}
		})
	}
}

// flip changes one byte in the middle of a file.
func flip(path string) error {
	b, err := os.ReadFile(path)
	if err != nil || len(b) == 0 {
		return errors.Join(err, errors.New("nothing to flip"))
	}
	b[len(b)/2] ^= 0x20
	return os.WriteFile(path, b, 0o600)
}

// emptyLog deletes all entries of the group and keeps its term.
func emptyLog(path string) error {
	l, err := sharedlog.Open(path, sharedlog.Options{})
	if err != nil {
		return err
	}
	g, err := l.Group(0)
	if err == nil {
		err = g.DeleteRange(1, sharedlog.MaxIndex)
	}
	return errors.Join(err, l.Close())
}

// eraseLog deletes all that the log holds of the group.
func eraseLog(path string) error {
	l, err := sharedlog.Open(path, sharedlog.Options{})
	if err != nil {
		return err
	}
	g, err := l.Group(0)
	if err == nil {
		err = g.Erase()
	}
	return errors.Join(err, l.Close())
}
