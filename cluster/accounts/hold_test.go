package accounts

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/internal/account"
)

// TestHold: a backup blocks decisions to commit and Forgets, and nothing else, until it releases
// the range or its time runs out.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Service{queues: make([]queue, 1)}
		g := &s.queues[0].gate
		commands := []account.Command{
			{Apply: &account.Request{}},
			{Begin: &account.Begin{}},
			{Prepare: &account.Prepare{}},
			{Decide: &account.Decide{}},
			{Finish: &account.Finish{Commit: true}},
			{Collect: &account.Collect{}},
			{Decide: &account.Decide{Commit: true}},
			{Forget: &account.TxID{}},
		}
		passed := func(want int) {
			t.Helper()
			var batch []*pending
			for _, c := range commands {
				batch = append(batch, newPending(c, "", false))
			}
			pass, leave := g.enter(batch)
			leave()
			if len(pass) != want {
				t.Errorf("%d of %d pass; want %d", len(pass), len(batch), want)
			}
			for i, p := range batch {
				if stopped := i >= want; errors.Is(p.err, errOverloaded) != stopped {
					t.Errorf("command %d: %v", i, p.err)
				}
			}
		}
		passed(8)
		if err := s.Hold(0, "a", time.Second); err != nil || !s.Holding(0, "a") || s.Holding(0, "b") {
			t.Fatal(err)
		}
		passed(6)
		if s.Hold(0, "b", time.Second) == nil {
			t.Error("two backups hold the range")
		}
		s.Release(0, "b") // not its own
		passed(6)
		s.Release(0, "a")
		passed(8)
		if err := s.Hold(0, "b", time.Second); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if s.Holding(0, "b") {
			t.Error("it holds for longer than it said")
		}
		passed(8)
		if err := s.Hold(0, "a", time.Second); err != nil {
			t.Error(err)
		}
	})
}

// TestHoldWaits: Hold waits while a step is in flight.
func TestHoldWaits(t *testing.T) {
	s := &Service{queues: make([]queue, 1)}
	g := &s.queues[0].gate
	_, leave := g.enter([]*pending{newPending(account.Command{Forget: &account.TxID{}}, "", false)})
	if g.passing.TryLock() {
		t.Error("the gate is free while a step is under way")
	}
	leave()
	if err := s.Hold(0, "a", time.Second); err != nil {
		t.Error(err)
	}
}
