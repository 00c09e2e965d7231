package raftgroup

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/cluster/raftgroup/sharedlog"
	"github.com/quorate/quorate/internal/syncdir"
	"github.com/quorate/quorate/internal/testspeed"
)

// brokenStore fails its transactions while broken is set.
type brokenStore struct {
	sharedlog.Store
	broken   *atomic.Bool
	attempts *atomic.Int64 // transactions that failed
	deleting func()        // called before entries are deleted; may be nil
}

func (s brokenStore) StoreLogs(all []*raft.Log) error {
	if s.broken.Load() {
		s.attempts.Add(1)
		return errors.Join(s.Store.StoreLogs(all), syscall.EIO) // written, and the sync fails
	}
	return s.Store.StoreLogs(all)
}

func (s brokenStore) DeleteRange(from, to uint64) error {
	if s.broken.Load() {
		s.attempts.Add(1)
		return syscall.EIO
	}
	if s.deleting != nil {
		s.deleting()
	}
	return s.Store.DeleteRange(from, to)
}

// withBrokenStore puts a brokenStore under the log of a node of the cluster that starts next.
func withBrokenStore(t *testing.T, dirOf func() string) *brokenStore {
	t.Helper()
	s := &brokenStore{broken: &atomic.Bool{}, attempts: &atomic.Int64{}}
	wrapStore = func(dir string) func(sharedlog.Store) sharedlog.Store {
		if dir != dirOf() {
			return nil
		}
		return func(real sharedlog.Store) sharedlog.Store {
			return brokenStore{real, s.broken, s.attempts, s.deleting}
		}
	}
	t.Cleanup(func() { wrapStore = nil })
	return s
}

// TestFaultOfTheSharedLog checks that when the log of a node fails, all of its groups that write
// get other leaders, no acknowledged entry is lost, the node does not retry in a busy loop, and all
// its groups return when the disk is well.
func TestFaultOfTheSharedLog(t *testing.T) {
	testspeed.Full(t)
	const groups = 6
	c := &cluster{t: t, groups: groups}
	s := withBrokenStore(t, func() string { return c.members[0].dir })
	c.begin(3)
	c.awaitPreferred()
	for g := range groups {
		c.apply(g, 20)
	}
	sick := c.members[0]
	s.broken.Store(true)
	start := time.Now()
	total := [groups]uint64{}
	for g := range groups { // each group finds the fault by a write
		total[g] = 45
		if m := c.leader(g); m == sick {
			if _, err := m.groups[g].Apply(within(t, patience), []byte("lost")); !errors.Is(err, ErrUncertain) {
				t.Errorf("an append that failed: %v", err)
			}
			c.unsure[g].Add(1)
		}
		c.apply(g, 20)
	}
	for g := range groups {
		if m := c.leader(g); m == sick {
			t.Errorf("group %d is led by the node whose disk fails", g)
		}
	}
	c.eventually(10*time.Second, "it says so for all groups", func() bool { return len(sick.host.Health()) == groups })
	for g := range groups {
		c.apply(g, 5)
	}
	// Each group tries to return once a second at first, and less and less often.
	if n, most := s.attempts.Load(), int64(groups)*(2+int64(time.Since(start)/restartAfter)); n > most {
		t.Errorf("%d failed transactions in %v; at most %d", n, time.Since(start), most)
	}
	s.broken.Store(false)
	c.eventually(40*time.Second, "all groups are back", func() bool {
		for g := range groups {
			if !c.equal(g, total[g]) {
				return false
			}
		}
		return len(sick.host.Health()) == 0
	})
	if got := sick.host.logs.Stats(); got.Reopened == 0 {
		t.Errorf("the log was not reopened: %+v", got)
	}
	c.crash(0)
	c.start(0, nil)
	for g := range groups {
		c.apply(g, 5)
		c.eventually(20*time.Second, "all replicas are equal", func() bool { return c.equal(g, total[g]+5) })
	}
}

// TestBootstrapAfterHalfOfIt checks that a group gets a leader after a crash between the storing of
// a term, or of a vote, and of the first entry, on one node or on all of them.
func TestBootstrapAfterHalfOfIt(t *testing.T) {
	t.Parallel() // it mostly waits
	for name, nodes := range map[string][]int{"founder": {0}, "voter": {1}, "all": {0, 1, 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &cluster{t: t, groups: 1, edit: quick, before: func(c *cluster) {
				for _, n := range nodes {
					l, err := openLog(c.members[n].dir)
					if err != nil {
						t.Fatal(err)
					}
					g, err := l.Group(0)
					if err := errors.Join(err, g.Found(uint64(n+1), nil), g.SetUint64([]byte("LastVoteTerm"), uint64(n+1)), g.Set([]byte("LastVoteCand"), []byte("n0")), l.Close()); err != nil {
						t.Fatal(err)
					}
				}
			}}
			c.begin(3)
			c.eventually(10*time.Second, "a leader", c.allServed)
			c.apply(0, 10)
			c.eventually(10*time.Second, "all replicas are equal", func() bool { return c.equal(0, 10) })
		})
	}
}

// TestFoundLateWithTerms checks that the voters found a group without its founder although they
// have voted before.
func TestFoundLateWithTerms(t *testing.T) {
	testspeed.Full(t)
	t.Parallel() // it mostly waits
	c := &cluster{t: t, groups: 1, edit: quick, late: []int{0}, before: func(c *cluster) {
		for _, m := range c.members {
			l, err := openLog(m.dir)
			if err != nil {
				t.Fatal(err)
			}
			g, err := l.Group(0)
			if err := errors.Join(err, g.Found(5, nil), l.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}}
	c.begin(3)
	c.eventually(lateAfter+20*time.Second, "two of three lead the group", c.allServed)
	c.apply(0, 10)
	c.start(0, nil)
	c.eventually(20*time.Second, "all replicas are equal", func() bool { return c.equal(0, 10) })
}

// names records which names each directory had when it was last synced.
type names struct {
	mu     sync.Mutex
	synced map[string][]string
}

func (n *names) observe(dir string) {
	entries, _ := os.ReadDir(dir)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.synced[dir] = nil
	for _, e := range entries {
		n.synced[dir] = append(n.synced[dir], e.Name())
	}
}

// missing returns the files and directories below dir whose names no sync has made durable.
func (n *names) missing(t *testing.T, dir string) (out []string) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		parent := strings.TrimSuffix(filepath.Dir(path), tempSuffix)
		if path == dir || slices.Contains(n.synced[parent], filepath.Base(path)) || slices.Contains(n.synced[parent+tempSuffix], filepath.Base(path)) {
			return err
		}
		out = append(out, path)
		return err
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	return out
}

// TestNamesAreSynced checks that the names of the log and of all snapshots are durable, and those of
// a snapshot before entries that it covers are deleted.
func TestNamesAreSynced(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows syncs no directories")
	}
	n := &names{synced: map[string][]string{}}
	defer syncdir.Observe(n.observe)()
	c := &cluster{t: t, groups: 1, founded: []int{0}}
	var deleted atomic.Int64
	s := withBrokenStore(t, func() string { return c.members[0].dir })
	s.deleting = func() {
		deleted.Add(1)
		for _, path := range n.missing(t, filepath.Join(c.members[0].dir, "snapshots")) {
			if strings.Contains(path, "/snapshots/meta/snapshots/") && strings.Contains(filepath.Base(path), "-") {
				continue // raft syncs the directory of the snapshots itself
			}
			t.Errorf("entries are deleted, and a power cut would take %s", path)
		}
	}
	c.begin(1)
	c.eventually(5*time.Second, "it leads", c.allServed)
	g := c.members[0].groups[0]
	g.cur.Load().keepBehind(1)
	for range 3 {
		c.apply(0, 20)
		if err := g.Snapshot(within(t, patience)); err != nil {
			t.Fatal(err)
		}
	}
	if deleted.Load() == 0 {
		t.Error("no entry was deleted: nothing is tested")
	}
	for _, path := range n.missing(t, filepath.Join(c.members[0].dir, "raft")) {
		t.Errorf("a power cut would take %s", path)
	}
}

// TestDamageFoundLate checks that an entry that can no longer be read ends the replica instead of
// the process.
func TestDamageFoundLate(t *testing.T) {
	c := newCluster(t, 1, nil)
	c.awaitPreferred()
	c.apply(0, 20)
	m := c.members[0]
	i := m.groups[0].cur.Load()
	// While the recent entries are there, raft reads none from the log; their lock orders the change.
	var l raft.Log
	if last, err := i.disk.LastIndex(); err != nil || !i.disk.recent.get(last, &l) {
		t.Fatalf("the last entry, %d, is not among the recent ones; %v", last, err)
	}
	i.disk.logs = unreadable{i.disk.logs}
	i.disk.recent.forget()
	if err := i.disk.GetLog(1<<30, &l); !errors.Is(err, raft.ErrLogNotFound) || i.disk.failed.Load() {
		t.Errorf("an entry that is not there: %v", err)
	}
	if err := i.disk.GetLog(5, &l); err != nil || l.Type != raft.LogNoop {
		t.Errorf("%+v, %v", l, err)
	}
	c.eventually(10*time.Second, "the replica returns, and another led meanwhile or it leads again", func() bool {
		now := m.groups[0].cur.Load()
		return now != nil && now != i && c.leader(0) != nil
	})
	c.apply(0, 20)
	c.eventually(10*time.Second, "all replicas are equal", func() bool { return c.equal(0, 40) })
}

type unreadable struct{ raft.LogStore }

func (u unreadable) GetLog(index uint64, l *raft.Log) error {
	if index > 1<<20 {
		return raft.ErrLogNotFound
	}
	return errors.New("injected: wrong checksum")
}
