package raftgroup

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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
	return c, m, logFile(m.dir, "g0"), filepath.Join(snapshotDir(m.dir, "g0"), "snapshots")
}

// reopenAlone opens the group of a stopped node, without links to other nodes.
func reopenAlone(t *testing.T, m *member) (*machine, error) {
	t.Helper()
	h, err := New(Config{Self: m.id, Dir: m.dir, Net: m.net})
	if err != nil {
		t.Fatal(err)
	}
	sm := &machine{}
	g, err := h.Open(GroupOptions{ID: 0, Name: "g0", Voters: []quota.NodeID{m.id}, FSM: sm, FirstEntry: func(uint64) []byte { return []byte("barrier") }})
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
		{name: "empty log", log: truncate(0), names: "g0.db"},
		{name: "half a page of log", log: truncate(2048), names: "g0.db"},
		{name: "log cut in the middle", log: truncate(3 * 4096), names: "g0.db"},
		{name: "no log", log: os.Remove, names: "g0.db"},
		{name: "log of another kind", log: func(p string) error { return os.WriteFile(p, []byte(strings.Repeat("nonsense", 4096)), 0o600) }, names: "g0.db"},
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

// emptyLog replaces the log with one that ends before the snapshots.
func emptyLog(path string) error {
	s, err := openBolt(path)
	if err != nil {
		return err
	}
	return errors.Join(s.DeleteRange(1, 1<<40), s.Close())
}

// TestRandomDamageNeverPanics changes random bytes of the log and truncates logs at random. The
// damage causes an error or goes unnoticed, but never ends the process.
func TestRandomDamageNeverPanics(t *testing.T) {
	t.Parallel()
	_, m, log, _ := damagedNode(t)
	good, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	refused := 0
	for round := range 150 {
		b := append([]byte(nil), good...)
		if round%5 == 0 {
			b = b[:rng.IntN(len(b))]
		}
		for range 1 + rng.IntN(8) {
			if len(b) > 0 {
				b[min(rng.IntN(len(b)), rng.IntN(16*4096))%len(b)] = byte(rng.Uint32())
			}
		}
		if err := os.WriteFile(log, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := checkBolt(log); err != nil {
			refused++
			continue
		}
		if s, err := openStore(log, false); err == nil {
			_ = s.Close()
		}
	}
	if refused < 30 {
		t.Errorf("only %d of 150 were refused: nothing is tested", refused)
	}
	if err := os.WriteFile(log, good, 0o600); err != nil {
		t.Fatal(err)
	}
	if sm, err := reopenAlone(t, m); err != nil || sm.get().Count != 110 {
		t.Errorf("the sound one: %+v, %v", sm.get(), err)
	}
}
