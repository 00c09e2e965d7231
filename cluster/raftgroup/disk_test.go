package raftgroup

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// fullDisk is the disk of one node. Tests can make it reject writes or hang.
type fullDisk struct {
	full atomic.Bool
	torn atomic.Bool // failed appends are written all the same
	hang atomic.Pointer[chan struct{}]

	delay atomic.Int64 // extra nanoseconds per append
}

func (d *fullDisk) err() error {
	if c := d.hang.Load(); c != nil {
		<-*c
	}
	if d.full.Load() {
		return &os.PathError{Op: "write", Path: "g0.db", Err: syscall.ENOSPC}
	}
	return nil
}

type fullLog struct {
	raft.LogStore
	disk *fullDisk
}

func (l fullLog) StoreLog(e *raft.Log) error { return l.StoreLogs([]*raft.Log{e}) }

func (l fullLog) StoreLogs(e []*raft.Log) error {
	time.Sleep(time.Duration(l.disk.delay.Load())) // the simulated disk's latency
	err := l.disk.err()
	if err == nil || l.disk.torn.Load() {
		return errors.Join(err, l.LogStore.StoreLogs(e))
	}
	return err
}

func (l fullLog) DeleteRange(from, to uint64) error {
	return errors.Join(l.disk.err(), l.LogStore.DeleteRange(from, to))
}

type fullStable struct {
	raft.StableStore
	disk *fullDisk
}

func (s fullStable) Set(k, v []byte) error {
	if err := s.disk.err(); err != nil {
		return err
	}
	return s.StableStore.Set(k, v)
}

func (s fullStable) SetUint64(k []byte, v uint64) error {
	if err := s.disk.err(); err != nil {
		return err
	}
	return s.StableStore.SetUint64(k, v)
}

// withFullDisk puts a fullDisk under a node. Call it before the cluster starts.
func withFullDisk(t *testing.T, id quota.NodeID) *fullDisk {
	t.Helper()
	d := &fullDisk{}
	log, stable, free := wrapLogStore, wrapStableStore, freeSpace
	wrapLogStore = func(self quota.NodeID, s raft.LogStore) raft.LogStore {
		if self == id {
			return fullLog{s, d}
		}
		return log(self, s)
	}
	wrapStableStore = func(self quota.NodeID, s raft.StableStore) raft.StableStore {
		if self == id {
			return fullStable{s, d}
		}
		return stable(self, s)
	}
	t.Cleanup(func() { wrapLogStore, wrapStableStore, freeSpace = log, stable, free })
	return d
}

// ails reports whether a node reports a fault whose text contains that word.
func (m *member) ails(word string) bool {
	for _, t := range m.host.Health() {
		if strings.Contains(t.Err.Error(), word) {
			return true
		}
	}
	return false
}

// TestLeaderWithFullDisk checks that when a leader's writes fail, other nodes lead at once, no
// acknowledged entry is lost, and the replica recovers by itself when writes succeed again.
func TestLeaderWithFullDisk(t *testing.T) {
	testspeed.Full(t)
	for name, torn := range map[string]bool{"nothing written": false, "written all the same": true} {
		t.Run(name, func(t *testing.T) {
			disk := withFullDisk(t, "n0")
			c := newCluster(t, 2, waitless)
			c.awaitPreferred()
			c.apply(0, 50)
			sick := c.members[0]
			disk.torn.Store(torn)
			disk.full.Store(true)
			start := time.Now()
			if _, err := sick.groups[0].Apply(within(t, patience), []byte("lost")); !errors.Is(err, ErrUncertain) {
				t.Errorf("an append that failed: %v", err)
			}
			c.eventually(3*time.Second, "another leads", func() bool { m := c.leader(0); return m != nil && m != sick })
			took := time.Since(start)
			t.Logf("another leads after %v", took.Round(time.Millisecond))
			if took > sick.host.cfg.Timing.Lease {
				t.Errorf("took %v: nobody was asked to lead", took)
			}
			c.apply(1, 20) // the faulty node is a follower here: this makes it fail in this group too
			c.apply(0, 20)
			c.eventually(3*time.Second, "it says so", func() bool { return sick.ails("no space left") })
			if h := sick.host.Health(); !h[0].Out || h[0].Group != "meta" || h[0].Since.IsZero() {
				t.Errorf("health: %+v", h)
			}
			if !torn {
				time.Sleep(1500 * time.Millisecond) // restart attempts fail and cause no crash
			}
			if !sick.ails("no space left") && !sick.ails(errFailed.Error()) {
				t.Errorf("health: %+v", sick.host.Health())
			}
			disk.full.Store(false)
			c.eventually(10*time.Second, "it is back", func() bool { return len(sick.host.Health()) == 0 && c.equal(0, 70) && c.equal(1, 20) })
			c.apply(0, 10)
			c.eventually(5*time.Second, "and takes part", func() bool { return c.equal(0, 80) })
			if err := c.leader(0).groups[0].TransferTo(within(t, patience), "n0"); !errors.Is(err, ErrNotReady) {
				t.Errorf("it is given leadership at once, and may flap: %v", err)
			}
		})
	}
}

// TestVoterWithFullDisk checks that a vote or term that cannot be saved neither ends the process
// nor counts: with one of three nodes dead there is no leader.
func TestVoterWithFullDisk(t *testing.T) {
	testspeed.Full(t)
	disk := withFullDisk(t, "n1")
	c := newCluster(t, 1, nil)
	c.awaitPreferred()
	c.apply(0, 20)
	// n1 may be the slower follower. An append that fails would stop its replica before any vote.
	c.eventually(10*time.Second, "all have stored all", func() bool { return c.equal(0, 20) })
	disk.full.Store(true)
	c.crash(0)
	c.eventually(8*time.Second, "the voter finds that it cannot vote", func() bool { return c.members[1].ails("save the term") || c.members[1].ails("save a vote") })
	if c.leader(0) != nil {
		t.Error("a leader without a quorum of disks")
	}
	disk.full.Store(false)
	c.eventually(15*time.Second, "a leader", c.allServed)
	c.apply(0, 5)
	c.eventually(10*time.Second, "both hold all", func() bool { return c.equal(0, 25) })
}

// TestHangingDisk checks that other nodes take over from a leader whose write hangs.
func TestHangingDisk(t *testing.T) {
	testspeed.Full(t)
	if testing.Short() {
		t.Skip("waits for several timeouts")
	}
	disk := withFullDisk(t, "n0")
	c := newCluster(t, 1, quick)
	c.awaitPreferred()
	c.apply(0, 10)
	stop := make(chan struct{})
	disk.hang.Store(&stop)
	ended := make(chan struct{})
	go func() {
		_, _ = c.members[0].groups[0].Apply(within(t, patience), []byte("x"))
		close(ended)
	}()
	served := func() bool { return c.servedByOthers(0, c.members[0]) }
	took := c.eventually(12*time.Second, "another leads", served)
	t.Logf("another leads %v after a write hung", took.Round(time.Millisecond))
	if !c.members[0].ails("has not ended") {
		t.Errorf("health: %+v", c.members[0].host.Health())
	}
	disk.hang.Store(nil)
	close(stop)
	<-ended
	c.eventually(10*time.Second, "it follows", func() bool { return c.leader(0) != nil && len(c.members[0].host.Health()) == 0 })
	n := c.leader(0).machines[0].get().Count
	c.apply(0, 10)
	c.eventually(10*time.Second, "it holds what the others hold", func() bool { return c.equal(0, n+10) })
}

// TestLittleSpace checks that a node whose disk is nearly full gives its groups away while it
// still can, and gets its own group back when there is room.
func TestLittleSpace(t *testing.T) {
	testspeed.Full(t)
	var tight atomic.Bool
	_ = withFullDisk(t, "nobody")
	real := freeSpace
	freeSpace = func(dir string) (uint64, error) {
		if tight.Load() && filepath.Base(dir) == "002" { // n1 uses the test's second directory; its parent may have any digits
			return 1 << 20, nil
		}
		return real(dir)
	}
	c := newCluster(t, 3, func(c *Config) { c.BalanceEvery, c.BalanceAfter = 50*time.Millisecond, 100*time.Millisecond })
	c.awaitPreferred()
	if filepath.Base(c.members[1].dir) != "002" {
		t.Fatalf("directory %s: nothing is tested", c.members[1].dir)
	}
	for g := range 3 {
		c.apply(g, 5)
	}
	// Simulate a transfer that failed on a busy machine: the balancer rests for minutes after it,
	// but a full disk does not wait.
	c.members[1].groups[1].transfers.end(errors.New("it failed"))
	tight.Store(true)
	c.eventually(3*time.Second, "the node leads nothing", func() bool {
		return c.allServed() && c.leader(0) != c.members[1] && c.leader(1) != c.members[1] && c.leader(2) != c.members[1]
	})
	if !c.members[1].ails("free some") {
		t.Errorf("health: %+v", c.members[1].host.Health())
	}
	if err := c.members[0].groups[0].TransferTo(within(t, patience), "n1"); !errors.Is(err, ErrNotReady) {
		t.Errorf("a group is given to it: %v", err)
	}
	for g := range 3 {
		c.apply(g, 5) // it continues as a follower
		c.eventually(5*time.Second, "all replicas are equal", func() bool { return c.equal(g, 10) })
	}
	tight.Store(false)
	c.eventually(3*time.Second, "it says no more", func() bool { return len(c.members[1].host.Health()) == 0 })
	c.eventually(10*time.Second, "it is given its group back", func() bool {
		if m := c.leader(1); m != nil && m != c.members[1] { // do not wait for the balancer, which waits a minute
			_ = m.groups[1].TransferTo(within(t, patience), "n1")
		}
		return c.leader(1) == c.members[1]
	})
}

// TestSnapshotThatCannotBeWritten checks that a failed snapshot leaves nothing behind and is
// reported, and that the fault clears when a later snapshot succeeds.
func TestSnapshotThatCannotBeWritten(t *testing.T) {
	t.Parallel() // it mostly waits
	c := newGrowing(t, 1, nil)
	c.apply(0, 10)
	m := c.members[0]
	s := m.groups[0].snaps
	k, err := s.Create(1, 5, 1, raft.Configuration{}, 1, newTransport(nil, nil, "n0", 0, DefaultTiming()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(k, "half of it"); err != nil {
		t.Fatal(err)
	}
	s.sweep() // must not touch the snapshot being written
	if err := os.RemoveAll(filepath.Join(s.dir, k.ID()+tempSuffix)); err != nil {
		t.Fatal(err)
	}
	if err := k.Close(); err == nil {
		t.Fatal("closed without its directory")
	}
	if left, _ := filepath.Glob(filepath.Join(s.dir, "*")); len(left) > 0 {
		t.Errorf("leaves %v", left)
	}
	if !m.ails("snapshot") {
		t.Errorf("health: %+v", m.host.Health())
	}
	if err := m.groups[0].Snapshot(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	if h := m.host.Health(); len(h) > 0 {
		t.Errorf("health: %+v", h)
	}
}
