package raftgroup

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/testspeed"
)

// backupOf reads a complete backup.
func backupOf(t *testing.T, g *Group) (index, term uint64, data []byte) {
	t.Helper()
	index, term, size, r, err := g.Backup(within(t, patience))
	if err != nil {
		t.Fatal(err)
	}
	data, err = io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil || int64(len(data)) != size {
		t.Fatalf("%d bytes of %d, %v", len(data), size, err)
	}
	return index, term, data
}

// TestBackupAndSeed checks that a backup taken on a leader or a follower can start a new cluster
// of one node, which others can join.
func TestBackupAndSeed(t *testing.T) {
	testspeed.Full(t)
	t.Parallel() // it mostly waits
	c := newGrowing(t, 2, nil)
	c.join(1)
	c.apply(0, 50)
	want := c.members[0].machines[0].get()
	c.eventually(5*time.Second, "both hold all", func() bool { return c.equal(0, 50) })
	index, term, data := backupOf(t, c.members[0].groups[0])
	again, _, same := backupOf(t, c.members[0].groups[0])
	if again != index || !bytes.Equal(same, data) {
		t.Errorf("a backup of the same state at %d and %d", index, again)
	}
	if _, _, follower := backupOf(t, c.members[1].groups[0]); !bytes.Equal(follower, data) {
		t.Error("leader and follower differ")
	}
	c.apply(0, 1)
	if later, _, _ := backupOf(t, c.members[0].groups[0]); later <= index {
		t.Errorf("entries were applied since, and the backup is at %d again", later)
	}

	n := &cluster{t: t, groups: 1, founded: []int{0}, before: func(c *cluster) {
		dir := c.members[0].dir
		if err := SeedGroup(dir, 0, "n0", index, term, bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		if err := SeedGroup(dir, 0, "n0", index, term, bytes.NewReader(data)); !errors.Is(err, fs.ErrExist) {
			t.Errorf("seeded twice: %v", err)
		}
	}}
	n.begin(2)
	n.eventually(5*time.Second, "the seeded node leads", func() bool { return n.leader(0) == n.members[0] })
	if got := n.members[0].machines[0].get(); got.Count != want.Count || got.Hash != want.Hash {
		t.Errorf("restored %+v, want %+v", got, want)
	}
	if _, now, _ := n.members[0].groups[0].Leader(); now <= term {
		t.Errorf("leads in term %d, the backup was of %d", now, term)
	}
	n.apply(0, 20)
	n.join(1)
	n.eventually(5*time.Second, "the joiner has all", func() bool { return n.equal(0, 70) })
	n.crash(0)
	n.crash(1)
	n.start(0, nil)
	n.start(1, nil)
	n.eventually(8*time.Second, "a leader after a restart", n.allServed)
	n.apply(0, 1)
	n.eventually(5*time.Second, "both hold all", func() bool { return n.equal(0, 71) })
}

func TestSeedCutShort(t *testing.T) {
	for name, data := range map[string]io.Reader{"fails at once": io.MultiReader(&brokenReader{}), "fails late": io.MultiReader(bytes.NewReader(make([]byte, 1<<20)), &brokenReader{})} {
		dir := t.TempDir()
		if err := SeedGroup(dir, 0, "n0", 5, 2, data); err == nil {
			t.Errorf("%s: no error", name)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "snapshots", "meta", "snapshots", "*")); len(left) > 0 {
			t.Errorf("%s: leaves %v", name, left)
		}
		if holds, err := Holds(dir, 0); holds || err != nil {
			t.Errorf("%s: leaves a log (%v)", name, err)
		}
	}
	if err := SeedGroup(t.TempDir(), 0, "n0", 0, 2, nil); err == nil {
		t.Error("index 0 is accepted")
	}
}

type brokenReader struct{}

func (*brokenReader) Read([]byte) (int, error) { return 0, errors.New("injected: the file ends here") }

// TestDiskUseIsBounded checks that the log and the snapshots of a group stay small after 10,000
// entries of 1 KiB.
func TestDiskUseIsBounded(t *testing.T) {
	t.Parallel() // it mostly waits
	if testing.Short() {
		t.Skip("fills a log; left out by -short")
	}
	c := newGrowing(t, 1, func(c *Config) { c.BalanceEvery = 50 * time.Millisecond })
	m := c.members[0]
	g := m.groups[0]
	data := bytes.Repeat([]byte("x"), 1<<10)
	slots, failed := make(chan error, 512), 0
	for range cap(slots) {
		slots <- nil
	}
	for range 10_000 {
		if err := <-slots; err != nil {
			failed++
		}
		go func() {
			_, err := g.Apply(context.Background(), data)
			slots <- err
		}()
	}
	for range cap(slots) {
		if err := <-slots; err != nil {
			failed++
		}
	}
	if failed > 0 {
		t.Fatalf("%d entries failed", failed)
	}
	c.eventually(10*time.Second, "a short log and few snapshots", func() bool {
		first, _ := g.store.FirstIndex()
		last, _ := g.store.LastIndex()
		left, _ := filepath.Glob(filepath.Join(m.dir, "snapshots", "meta", "snapshots", "*"))
		return last > 10_000 && last-first < trailingLogs+2*snapshotEntries && len(left) <= keepSnapshots
	})
	info, err := os.Stat(logPath(m.dir))
	if err != nil || info.Size() > 48<<20 {
		t.Errorf("the log file has %d bytes (%v)", info.Size(), err)
	}
	t.Logf("the log file has %d KiB", info.Size()>>10)
}

// TestTrailing checks how many entries stay behind a snapshot. Checkpoints of many keys are large
// entries, so fewer of them stay.
func TestTrailing(t *testing.T) {
	for _, c := range []struct {
		share, bytes, entries int64
		want                  uint64
	}{
		{1 << 20, 1 << 20, 10_000, trailingLogs},
		{1 << 20, 1 << 20, 512, 256},
		{1 << 20, 100 << 20, 1000, minTrailing},
		{1 << 20, 0, 0, trailingLogs},
		{minLogShare, 1, 1, trailingLogs},
	} {
		if got := trailing(c.share, c.bytes, c.entries); got != c.want {
			t.Errorf("trailing(%d, %d, %d) = %d, not %d", c.share, c.bytes, c.entries, got, c.want)
		}
	}
}

// TestLargeEntriesStayFew checks that every replica truncates a log of large entries by bytes.
func TestLargeEntriesStayFew(t *testing.T) {
	t.Parallel() // it mostly waits
	if testing.Short() {
		t.Skip("fills logs; left out by -short")
	}
	c := newGrowing(t, 1, func(c *Config) { c.BalanceEvery = 50 * time.Millisecond })
	g := c.members[0].groups[0]
	share := int64(logBudget / len(c.members[0].groups))
	data := bytes.Repeat([]byte("x"), 256<<10)
	for range 3 * share / int64(len(data)) {
		if _, err := g.Apply(t.Context(), data); err != nil {
			t.Fatal(err)
		}
	}
	c.eventually(10*time.Second, "a log that was cut", func() bool {
		first, _ := g.store.FirstIndex()
		last, _ := g.store.LastIndex()
		return first > 1 && int64(last-first)*int64(len(data)) < 2*share
	})
}
