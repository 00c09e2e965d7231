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
	o := m.groups[0].opts
	for range 20 {
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
		if !Exists(m.host.cfg.Dir, o.Name) {
			t.Fatal("the group is open, and has no log")
		}
	}
}
