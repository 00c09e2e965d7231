package raftgroup

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// TestPace checks that one slow append does not make the disk slow, but several do, and that the
// disk counts as fast again only after a minute of fast appends.
func TestPace(t *testing.T) {
	p := diskLatency{limit: 500 * time.Millisecond}
	now := time.Unix(1000, 0)
	note := func(n int, every, took time.Duration) {
		for range n {
			now = now.Add(every)
			p.note(now, took)
		}
	}
	expect := func(what string, slow bool) {
		t.Helper()
		if got := p.fault(); (got != nil) != slow {
			t.Errorf("%s: %+v, want slow %v", what, got, slow)
		}
	}
	says := func(text string) {
		t.Helper()
		if got := p.fault(); got == nil || got.err.Error() != text {
			t.Errorf("it says %q, want %q", p.text(), text)
		}
	}
	note(100, time.Second, 10*time.Millisecond)
	note(1, time.Second, time.Second)
	expect("one append of a second", false)
	note(20, time.Second, 10*time.Millisecond)
	note(3, time.Second, time.Second)
	expect("three in a row", true)
	says("slow disk: appends to the log take 583ms, slow is from 500ms on; others lead if theirs are faster")
	note(1, time.Second, time.Millisecond)
	note(50, time.Second, time.Millisecond)
	expect("50 fast ones within a minute", true)
	says("slow disk: appends to the log took up to 583ms (slow: 500ms or more); they take 1ms now. The fault ends after a minute below 250ms")
	note(1, time.Second, 4*time.Second)
	note(50, time.Second, time.Millisecond)
	expect("the minute begins anew", true)
	if p.idle(now) || !p.idle(now.Add(saveRetry)) {
		t.Error("it is idle after a pause and not before")
	}
	note(20, time.Second, time.Millisecond)
	expect("a minute of fast ones", false)
	off := diskLatency{}
	off.note(now, time.Hour)
	if off.fault() != nil {
		t.Error("without a limit nothing is slow")
	}
}

// set marks the disk as slow since the given time; zero marks it as not slow.
func (p *diskLatency) set(since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slow, p.at = since, time.Now()
}

// TestSlowDisk checks that a leader whose disk has become slow hands over leadership, reports why
// and gets nothing back, and that it keeps its groups when the other disks are no faster.
func TestSlowDisk(t *testing.T) {
	disk := withFullDisk(t, "n0")
	c := newCluster(t, 2, func(c *Config) {
		c.BalanceEvery, c.BalanceAfter, c.SlowDisk = 50*time.Millisecond, 100*time.Millisecond, 50*time.Millisecond
	})
	c.awaitPreferred()
	c.apply(0, 5)
	sick := c.members[0]
	for _, m := range c.members[1:] {
		m.host.latency.set(time.Now()) // pretend that their disks are slow too
	}
	disk.delay.Store(int64(200 * time.Millisecond))
	applied := 5
	c.eventually(patience, "it says that its disk is slow", func() bool { // takes several appends, of one entry or more each
		c.apply(0, 1)
		applied++
		return sick.ails("slow disk")
	})
	if c.leader(0) != sick {
		t.Error("leadership went to a node whose disk is no faster")
	}
	c.eventually(5*time.Second, "the one whose disk is fast leads", func() bool {
		c.members[2].host.latency.set(time.Time{}) // even if the machine itself is slow
		return c.leader(0) == c.members[2]
	})
	disk.delay.Store(0)
	c.apply(0, 20)
	if err := c.members[2].groups[0].TransferTo(within(t, patience), quota.NodeID("n0")); err == nil {
		t.Error("it is given leadership at once, and may flap")
	}
	c.eventually(10*time.Second, "all replicas are equal", func() bool { return c.equal(0, uint64(applied+20)) })
}

// TestUnfit checks that an unfit leader hands over leadership, even to a node that has just
// connected. It gets no leadership, and hands over what it wins before it serves; it leads when
// no fitter node can.
func TestUnfit(t *testing.T) {
	testspeed.Full(t)
	unfit := map[quota.NodeID]*atomic.Bool{"n0": {}, "n1": {}, "n2": {}}
	unfit["n0"].Store(true) // it is the preferred leader and wins first
	c := newCluster(t, 1, func(c *Config) {
		c.BalanceEvery, c.BalanceAfter, c.Unfit = 50*time.Millisecond, time.Hour, unfit[c.Self].Load // no node reaches BalanceAfter
	})
	leads := func(n int) func() bool { return func() bool { return c.leader(0) == c.members[n] } }
	c.eventually(patience, "another leads", func() bool { return leads(1)() || leads(2)() })
	c.apply(0, 5)
	if n := c.members[0].served.Load(); n > 0 {
		t.Errorf("it has served %d times", n)
	}
	if err := c.leader(0).groups[0].TransferTo(within(t, patience), "n0"); err == nil {
		t.Error("it is given leadership")
	}
	c.crash(1)
	c.crash(2)
	c.start(1, nil)
	c.eventually(patience, "the one that is not unfit leads", leads(1))
	unfit["n1"].Store(true)
	c.start(2, nil)
	c.eventually(patience, "the one that has just connected leads", leads(2))
	c.apply(0, 5)
	c.crash(2)
	c.eventually(patience, "one of two unfit ones leads", func() bool { return leads(0)() || leads(1)() })
	c.apply(0, 5)
}
