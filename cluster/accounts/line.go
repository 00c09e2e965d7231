package accounts

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/account"
)

// lines makes calls that change the same accounts wait for each other: one of each account is under
// way, and the others follow in the order in which they came, instead of aborting each other. A node
// has one for the transactions that it coordinates, and one for the ranges that it leads (turns).
type lines struct {
	mu      sync.Mutex
	of      map[account.ID][]chan struct{} // the waiting calls of each account that has one under way
	waiting int                            // in all lines
	bytes   int                            // of the names in of
}

// Bounds of the lines. Waiting in line only avoids conflicts, so a call goes on without it once a
// bound is reached, or lineLimit is over: the call before it may wait for a range without a leader.
const (
	lineLimit    = 3 * time.Second
	maxInLine    = 4096
	maxLineBytes = 16 << 20
)

// enter waits until it is the turn of a call at all of its accounts, for lineLimit at most.
// leave lets the next calls go on.
func (l *lines) enter(ctx context.Context, parts []part) (leave func()) {
	ctx, cancel := context.WithTimeout(ctx, lineLimit)
	defer cancel()
	var ids []account.ID
	for i := range parts {
		ids = append(ids, parts[i].accounts()...)
	}
	leave, _ = l.enterAll(ctx, ids)
	return leave
}

// accounts are those of the part's operations, some of them more than once.
func (p *part) accounts() []account.ID {
	ids := make([]account.ID, len(p.request.Ops))
	for i := range p.request.Ops {
		ids[i] = p.request.Ops[i].Account
	}
	return ids
}

// enterAll waits for one account after the other, in one order for all calls, so that no two wait
// for each other. all is false when ctx has ended before it was the call's turn everywhere, or a
// bound is reached; leave is to be called all the same.
func (l *lines) enterAll(ctx context.Context, ids []account.ID) (leave func(), all bool) {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, account.ID.Compare)
	ids = slices.Compact(ids)
	had := 0
	for had < len(ids) && l.wait(ctx, ids[had]) {
		had++
	}
	return func() {
		for _, id := range ids[:had] {
			l.pass(id)
		}
	}, had == len(ids)
}

// busy says whether it is somebody's turn at the account.
func (l *lines) busy(id account.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, busy := l.of[id]
	return busy
}

// wait waits until the account is free. It returns false when ctx ends first, or a bound is reached.
func (l *lines) wait(ctx context.Context, id account.ID) bool {
	l.mu.Lock()
	line, busy := l.of[id]
	if busy && l.waiting >= maxInLine || !busy && l.bytes+sizeOfID(&id) > maxLineBytes {
		l.mu.Unlock()
		return false
	}
	if !busy {
		if l.of == nil {
			l.of = map[account.ID][]chan struct{}{}
		}
		l.of[id] = nil
		l.bytes += sizeOfID(&id)
		l.mu.Unlock()
		return true
	}
	turn := make(chan struct{})
	l.of[id] = append(line, turn)
	l.waiting++
	l.mu.Unlock()
	select {
	case <-turn:
		return true
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	line = l.of[id]
	at := slices.Index(line, turn)
	if at < 0 {
		return true // its turn came just then
	}
	l.of[id] = slices.Delete(line, at, at+1)
	l.waiting--
	return false
}

// pass lets the next one of an account go on.
func (l *lines) pass(id account.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.of[id]
	if len(line) == 0 {
		delete(l.of, id)
		l.bytes -= sizeOfID(&id)
		return
	}
	close(line[0])
	l.of[id] = line[1:]
	l.waiting--
}
