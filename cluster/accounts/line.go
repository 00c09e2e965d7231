package accounts

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/fairshare"
)

// lines makes calls that change the same accounts wait for each other: each account admits one call
// at a time and the others follow in order of arrival, instead of aborting each other. A node has
// one for the transactions that it coordinates, and one for the ranges that it leads (turns).
type lines struct {
	mu     sync.Mutex
	of     map[account.ID][]waiter // waiting calls of each account that has a call under way
	places *fairshare.Pool         // one for each waiter, shared among owners; nil before the first
	bytes  int                     // size of the names in of
}

// waiter is a call in a line.
type waiter struct {
	turn  chan struct{} // closed when its turn comes
	owner string
}

// Bounds of the lines. Waiting in line only avoids conflicts, so a call continues without it when a
// bound is reached or after lineLimit: the call ahead may wait for a range without a leader.
const (
	lineLimit    = 3 * time.Second
	maxInLine    = 4096
	maxLineBytes = 16 << 20
)

// enter waits until it is the call's turn at all of its accounts, for at most lineLimit. The caller
// must call leave to let the next calls continue.
func (l *lines) enter(ctx context.Context, parts []part) (leave func()) {
	ctx, cancel := context.WithTimeout(ctx, lineLimit)
	defer cancel()
	var ids []account.ID
	for i := range parts {
		ids = append(ids, parts[i].accounts()...)
	}
	leave, _ = l.enterAll(ctx, parts[0].owner, ids)
	return leave
}

// accounts returns the accounts of the part's operations, possibly with duplicates.
func (p *part) accounts() []account.ID {
	ids := make([]account.ID, len(p.request.Ops))
	for i := range p.request.Ops {
		ids[i] = p.request.Ops[i].Account
	}
	return ids
}

// enterAll waits for one account after the other, in the same order for all calls, so that no two
// calls wait for each other. all is false if ctx ended or a bound was reached before it was the
// call's turn at every account; the caller must call leave in any case.
func (l *lines) enterAll(ctx context.Context, owner string, ids []account.ID) (leave func(), all bool) {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, account.ID.Compare)
	ids = slices.Compact(ids)
	had := 0
	for had < len(ids) && l.wait(ctx, owner, ids[had]) {
		had++
	}
	return func() {
		for _, id := range ids[:had] {
			l.pass(id)
		}
	}, had == len(ids)
}

// busy reports whether a call has its turn at the account.
func (l *lines) busy(id account.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, busy := l.of[id]
	return busy
}

// wait waits until the account is free. It returns false if ctx ends first, or a bound is reached.
func (l *lines) wait(ctx context.Context, owner string, id account.ID) bool {
	l.mu.Lock()
	if l.of == nil {
		l.of, l.places = map[account.ID][]waiter{}, fairshare.NewPerFree(maxInLine)
	}
	line, busy := l.of[id]
	if busy && l.places.TryAcquire(owner, 1) != fairshare.NotFull || !busy && l.bytes+sizeOfID(&id) > maxLineBytes {
		l.mu.Unlock()
		return false
	}
	if !busy {
		l.of[id] = nil
		l.bytes += sizeOfID(&id)
		l.mu.Unlock()
		return true
	}
	turn := make(chan struct{})
	l.of[id] = append(line, waiter{turn, owner})
	l.mu.Unlock()
	select {
	case <-turn:
		return true
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	line = l.of[id]
	at := slices.IndexFunc(line, func(w waiter) bool { return w.turn == turn })
	if at < 0 {
		return true // its turn came just now
	}
	l.of[id] = slices.Delete(line, at, at+1)
	l.places.Release(owner, 1)
	return false
}

// pass lets the next call in the account's line continue.
func (l *lines) pass(id account.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.of[id]
	if len(line) == 0 {
		delete(l.of, id)
		l.bytes -= sizeOfID(&id)
		return
	}
	close(line[0].turn)
	l.of[id] = line[1:]
	l.places.Release(line[0].owner, 1)
}
