package cluster

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/internal/attach"
	"github.com/quorate/quorate/internal/machinetest"
	"github.com/quorate/quorate/internal/quota"
)

// loneSession attaches a process to a node without other clients.
func loneSession(t testing.TB, n *Node, number quota.Term) (attach.Session, *attach.Outbox) {
	t.Helper()
	out := attach.NewOutbox()
	s, err := n.Attach(&attach.Hello{Client: "svc", Incarnation: 1, Attachment: number}, out)
	if err != nil {
		t.Fatal(err)
	}
	return s, out
}

// TestClientNamesNoLimits checks that a node remembers nothing about keys without a limit that a
// process names.
func TestClientNamesNoLimits(t *testing.T) {
	n := loneNode()
	setLimits(n, limit("a", 10, quota.Soft))
	run(t, n)
	s, out := loneSession(t, n, 1)
	const reports, each = 40, 4096
	before := machinetest.Heap()
	for r := range reports {
		rep := quota.Report{From: "svc", Incarnation: 1, Term: 1, Seq: quota.Seq(r + 1)}
		for e := range each {
			k := quota.Key{LimitName: quota.LimitName{Namespace: "no-such", Limit: "limit"}, Key: fmt.Sprintf("%08d", r*each+e)}
			rep.Entries = append(rep.Entries, quota.ReportEntry{Key: k, Epoch: 1})
		}
		s.Report(&rep)
		for { // drain the outbox
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			m, _ := out.Next(ctx)
			cancel()
			if m == nil {
				break
			}
		}
	}
	if grown := int64(machinetest.Heap()) - int64(before); grown > 16<<20 {
		t.Errorf("%d keys of no limit take %d MiB", reports*each, grown>>20)
	}
	runtime.KeepAlive(s)
}

// TestSettlementParts checks that a settlement is booked and answered once all of its parts have
// arrived in order.
func TestSettlementParts(t *testing.T) {
	key := func(i int) quota.Key {
		return quota.Key{LimitName: limit("a", 10, quota.Soft).LimitName, Key: fmt.Sprint("k", i)}
	}
	for what, c := range map[string]struct {
		parts [][2]int // part, parts
		done  bool
	}{
		"all":         {[][2]int{{1, 3}, {2, 3}, {3, 3}}, true},
		"one missing": {[][2]int{{1, 3}, {3, 3}}, false},
		"no first":    {[][2]int{{2, 2}}, false},
		"begun again": {[][2]int{{1, 3}, {2, 3}, {1, 2}, {2, 2}}, true},
	} {
		n := loneNode()
		setLimits(n, limit("a", 10, quota.Soft))
		run(t, n)
		loneSession(t, n, 1)
		s, out := loneSession(t, n, 2)
		for i, p := range c.parts {
			s.Settle(&attach.Settlement{Node: "n1", Incarnation: n.inc, Part: p[0], Parts: p[1], Report: quota.Report{
				From: "svc", Incarnation: 1, Term: 1, Seq: quota.Seq(i + 1), Full: p[0] == p[1],
				Entries: []quota.ReportEntry{{Key: key(i), Epoch: 1, Overdrawn: quota.Token, Unreported: quota.Token, Final: true}},
			}})
		}
		done := false
		for !done {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			m, err := out.Next(ctx)
			cancel()
			if err != nil || m == nil {
				break
			}
			done = m.GetSettled().GetAttachment() == 1
		}
		if done != c.done {
			t.Errorf("%s: settled is %v; want %v", what, done, c.done)
		}
	}
}

// TestClientShares checks that one identity cannot take all places for clients.
func TestClientShares(t *testing.T) {
	n := loneNode()
	attached := func(owner string, i int) error {
		_, err := n.Attach(&attach.Hello{Client: quota.NodeID(fmt.Sprintf("%s/%d", owner, i)), Owner: owner, Incarnation: 1, Attachment: 1}, attach.NewOutbox())
		return err
	}
	for i := range clients.Max {
		if err := attached("greedy", i); err != nil {
			if most := clients.Max / 8 * 7; !errors.Is(err, attach.ErrShare) || i != most {
				t.Fatalf("after %d: %v; want %d, and ErrShare", i, err, most)
			}
			break
		}
	}
	if err := attached("greedy", 0); errors.Is(err, attach.ErrShare) {
		t.Errorf("a process of its that is attached attaches again: %v", err)
	}
	for i := range 1000 {
		if err := attached("another", i); err != nil {
			t.Fatalf("another identity, after %d: %v", i, err)
		}
	}
	for i := range clients.Max { // a process that attaches again holds one place, also under another owner
		if _, err := n.Attach(&attach.Hello{Client: "moves", Owner: fmt.Sprint("owner", i%2), Incarnation: 1, Attachment: quota.Term(i + 1)}, attach.NewOutbox()); err != nil {
			t.Fatalf("attached for the %dth time: %v", i+1, err)
		}
	}
}

// TestClientChangesItsOwner checks that a process that is attached attaches again under another identity, also when the
// node has no place for others, and that an attempt that is refused changes no places.
func TestClientChangesItsOwner(t *testing.T) {
	n := loneNode()
	attached := func(id quota.NodeID, owner string, number quota.Term) (attach.Session, error) {
		return n.Attach(&attach.Hello{Client: id, Owner: owner, Incarnation: 1, Attachment: number}, attach.NewOutbox())
	}
	for i := range clients.Max {
		if _, err := attached(quota.NodeID(strconv.Itoa(i)), "", 1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := attached("new", "owner", 1); !errors.Is(err, attach.ErrFull) {
		t.Errorf("another process: %v; want ErrFull", err)
	}
	if _, err := attached("0", "owner", 1); !errors.Is(err, attach.ErrStale) {
		t.Errorf("a session that is not newer: %v; want ErrStale", err)
	}
	if s, err := attached("0", "owner", 2); err != nil {
		t.Errorf("a process with another identity: %v", err)
	} else {
		s.End()
	}
	if _, err := attached("new", "owner", 1); err != nil {
		t.Errorf("a process in the place of one that ended: %v", err)
	}
	if _, err := attached("newer", "owner", 1); !errors.Is(err, attach.ErrFull) {
		t.Errorf("one more: %v; want ErrFull", err)
	}
}
