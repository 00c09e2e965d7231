package accounts

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// most is the share of the first owner: seven eighths of 4096 places.
const most = 3584

// flooded is a world whose log stands still, and whose callers are in its queues.
type flooded struct {
	*world
	t       *testing.T
	calls   int
	running sync.WaitGroup
	results chan error
}

func flood(t *testing.T, ranges int) *flooded {
	t.Helper()
	f := &flooded{world: newWorldOf(t, ranges), t: t, results: make(chan error, 4*maxQueue)}
	f.hold = make(chan struct{})
	for r := range quota.RangeID(ranges) {
		for range maxEntries {
			f.call(t.Context(), "", r)
			synctest.Wait()
		}
	}
	return f
}

// call applies an operation on an account of its own in a range.
func (f *flooded) call(ctx context.Context, owner string, r quota.RangeID) {
	ops := add("x")
	for ok := false; !ok; ok = f.rangeOf(ops[0].Account) == r {
		f.calls++
		ops = add(fmt.Sprint("x", f.calls))
	}
	f.running.Go(func() {
		_, err := f.ApplyOps(ctx, account.Caller{By: "me", Owner: owner}, "", 0, ops)
		f.results <- err
	})
}

// fill calls n times, and returns how many more wait then.
func (f *flooded) fill(ctx context.Context, owner string, n int, r quota.RangeID) int {
	before := f.queues[r].length()
	for range n {
		f.call(ctx, owner, r)
	}
	synctest.Wait()
	return f.queues[r].length() - before
}

// end lets the log go on, and checks that no place is taken when all calls have ended.
func (f *flooded) end() (refused int) {
	close(f.hold)
	f.running.Wait()
	time.Sleep(time.Second) // for what calls leave to be forgotten
	close(f.results)
	for err := range f.results {
		if overloaded(err) {
			refused++
		}
	}
	for r := range f.queues {
		if held, waiting := f.queues[r].places.Held(), f.queues[r].length(); held != 0 || waiting != 0 {
			f.t.Errorf("range %d: %d places are taken, %d commands wait", r, held, waiting)
		}
	}
	return refused
}

func overloaded(err error) bool {
	u, ok := errors.AsType[*UnavailableError](err)
	return ok && u.Overloaded && !u.Unknown
}

// TestQueueShares: an owner takes at most seven eighths of the free places of a range's queue, so that others still have
// some. What ends a call is taken beyond the share. Calls that leave, and those that are carried out, give their places
// back.
func TestQueueShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := flood(t, 1)
		ctx, leave := context.WithCancel(t.Context())
		if n := f.fill(ctx, "ann", maxQueue+10, 0); n != most {
			t.Errorf("%d calls of ann wait; want %d", n, most)
		}
		if n := f.fill(t.Context(), "bob", 10, 0); n != 10 {
			t.Errorf("%d calls of bob wait; want 10", n)
		}
		if err := f.queues[0].push(newPending(account.Command{Decide: &account.Decide{}}, "ann", false)); err != nil {
			t.Errorf("the end of a call: %v", err)
		}
		leave()
		synctest.Wait()
		if n := f.queues[0].length(); n != 11 {
			t.Errorf("%d wait when ann has left; want 11", n)
		}
		if n := f.fill(t.Context(), "ann", 100, 0); n != 100 {
			t.Errorf("%d calls of ann wait when she comes again; want 100", n)
		}
		if refused := f.end(); refused != maxQueue+10-most {
			t.Errorf("%d refused as overloaded; want %d", refused, maxQueue+10-most)
		}
	})
}

// TestForwardedShares: forwarded commands count for the node that sent them, and its callers leave room for those here.
// A command that was refused gives no place back, even if the caller leaves at the same moment.
func TestForwardedShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := flood(t, 1)
		batch := func(c account.Command) *peerv1.CallAccounts {
			data, err := account.EncodeBatch(0, []account.Command{c})
			if err != nil {
				t.Fatal(err)
			}
			return &peerv1.CallAccounts{Batch: data}
		}
		q := &f.queues[0]
		forward := func(ctx context.Context, i int, from quota.NodeID) {
			go f.passed(ctx, from, batch(account.Command{Apply: &account.Request{By: fmt.Sprint("user:", i), Ops: add(fmt.Sprint("y", i))}}))
		}
		for i := range maxQueue {
			forward(t.Context(), i, "n2")
		}
		synctest.Wait()
		if n := q.length(); n != most {
			t.Errorf("%d commands of n2 wait; want %d", n, most)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		for i := range 100 {
			forward(gone, maxQueue+i, "n2")
		}
		synctest.Wait()
		if held := q.places.Held(); held != most || q.length() != most {
			t.Errorf("%d places for %d commands after refused ones; want %d", held, q.length(), most)
		}
		go f.passed(t.Context(), "n2", batch(account.Command{Finish: &account.Finish{}}))
		if n := f.fill(t.Context(), "ann", 10, 0); n != 11 {
			t.Errorf("%d more wait; want 10 of ann and the end of a call of n2", n)
		}
		f.end()
	})
}

// TestBundleOfOwners: a bundle that finds no room, because the share of its first call's owner is used up, is carried
// out call by call.
func TestBundleOfOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := flood(t, 2)
		for r := range quota.RangeID(2) {
			f.fill(t.Context(), "ann", most, r)
		}
		ops := in(2)
		for i := range ops {
			ops[i].RelativeTo, ops[i].Options, ops[i].Delta = account.Zero, account.IgnorePolicyBounds, 1
		}
		ahead := f.lines.enter(t.Context(), f.split("", &account.Request{Ops: ops}))
		done := map[string]chan error{"ann": make(chan error, 1), "bob": make(chan error, 1)}
		for _, owner := range []string{"ann", "bob"} {
			go func() {
				out, err := f.ApplyOps(t.Context(), account.Caller{By: "me", Owner: owner}, "", 0, ops)
				if err == nil && out.Code != account.Done {
					err = fmt.Errorf("%+v", out)
				}
				done[owner] <- err
			}()
			synctest.Wait()
		}
		ahead()
		synctest.Wait() // the bundle has found no room, and each of its calls goes on
		f.end()
		if err := <-done["ann"]; err != nil && !overloaded(err) {
			t.Errorf("ann, whose share was used up: %v", err)
		}
		if err := <-done["bob"]; err != nil {
			t.Errorf("bob, in the bundle that ann began: %v", err)
		}
	})
}

// TestLineShares: an owner takes at most seven eighths of the free places in lines. Beyond that, a call goes on without a
// line, and calls of others still wait. Calls that give up, and those whose turn has come, give their places back.
func TestLineShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lines
		id := account.ID{Name: "busy"}
		first, all := l.enterAll(t.Context(), "ann", []account.ID{id})
		if !all {
			t.Fatal("nobody is ahead")
		}
		ctx, leave := context.WithCancel(t.Context())
		turns := make(chan string, 2*maxInLine)
		enter := func(owner string, n int) {
			for range n {
				go func() {
					leave, all := l.enterAll(ctx, owner, []account.ID{id})
					if all {
						turns <- owner
					}
					leave()
				}()
			}
			synctest.Wait()
		}
		enter("ann", maxInLine)
		if n := l.places.Held(); n != most {
			t.Errorf("%d calls of ann are in line; want %d", n, most)
		}
		enter("bob", 10)
		if n := l.places.Held(); n != most+10 {
			t.Errorf("%d calls are in line with 10 of bob; want %d", n, most+10)
		}
		leave()
		synctest.Wait()
		if n := l.places.Held(); n != 0 {
			t.Errorf("%d places are taken when all have given up", n)
		}
		ctx = t.Context()
		enter("ann", 5)
		enter("bob", 5)
		first()
		synctest.Wait()
		if n := l.places.Held(); n != 0 || len(turns) != 10 || len(l.of) != 0 {
			t.Errorf("%d places are taken, %d had their turn, %d lines are left; want 0, 10, 0", n, len(turns), len(l.of))
		}
	})
}
