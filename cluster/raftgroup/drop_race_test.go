package raftgroup

import (
	"sync"
	"sync/atomic"
	"testing"
)

// TestOpenBesideDrop checks that a group opened while its files are being deleted either gets new
// files of its own or fails to open.
func TestOpenBesideDrop(t *testing.T) {
	c := newCluster(t, 1, nil)
	m := c.members[0]
	first := m.groups[0].opts
	for range 20 {
		o := first
		o.FSM = &machine{} // a new group starts with an empty state machine
		var wg sync.WaitGroup
		var dropped atomic.Bool
		wg.Go(func() {
			defer dropped.Store(true)
			if err := m.host.DropGroup(o.ID); err != nil {
				t.Errorf("drop: %v", err)
			}
		})
		wg.Go(func() {
			for !dropped.Load() { // fails while it is still open
				if _, err := m.host.Open(o); err == nil {
					return
				}
			}
		})
		wg.Wait()
		if m.host.Group(o.ID) == nil {
			if _, err := m.host.Open(o); err != nil {
				t.Fatalf("open: %v", err)
			}
		}
		if m.host.Group(o.ID).store.Term() == 0 || len(m.host.logs.Dropped()) > 0 {
			t.Fatal("the group is open, and has no log")
		}
	}
}
