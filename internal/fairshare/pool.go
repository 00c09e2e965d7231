// Package fairshare divides resources fairly. A Pool divides a bounded resource, such as bytes or open streams, among
// owners, none of which can take all of it. Level divides a rate among claimants, whose demand Follow averages; Most
// bounds their next counts, and Quiet says how rarely they report.
// Leaders, the ledgers of clients, and RLQS divide and average by the same code.
package fairshare

import "sync"

// Pool is an amount that owners acquire parts of and release. Its methods are safe for concurrent
// use. It stores only owners with a share.
type Pool struct {
	total, each int64 // each is 0 if an owner's bound is what is free

	mu   sync.Mutex
	held int64
	by   map[string]int64
}

// New returns a pool of total, of which a single owner may hold at most each.
func New(total, each int64) *Pool {
	return &Pool{total: total, each: each, by: map[string]int64{}}
}

// PerFree is the largest ratio of an owner's amount to the free amount. An owner thus gets at most seven
// eighths of what is free, and leaves an eighth to the next one. Owners that all take the most that they
// can still exhaust a pool together: five of them exhaust 4096.
const PerFree = 7

// NewPerFree returns a pool of total, of which a single owner may hold at most PerFree times as much as is
// free.
func NewPerFree(total int64) *Pool { return New(total, 0) }

// Full is the bound that a call of TryAcquire or Move would exceed.
type Full string

// The bounds.
const (
	NotFull Full = ""
	Total   Full = "total" // of all owners together
	Each    Full = "each"  // of one owner
)

// TryAcquire acquires n for an owner. If that would exceed a bound, it acquires nothing and returns the bound.
// An empty owner stands for indistinguishable callers: only the total bounds them.
func (p *Pool) TryAcquire(owner string, n int64) Full {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tryAcquire(owner, n)
}

func (p *Pool) tryAcquire(owner string, n int64) Full {
	free, each := p.total-p.held, p.each
	if each == 0 {
		each = PerFree * free
	}
	switch {
	case n > free:
		return Total
	case owner != "" && p.by[owner]+n > each:
		return Each
	}
	p.add(owner, n)
	return NotFull
}

// Move passes n of an owner's amount to another owner. If that would exceed a bound, it passes nothing and
// returns the bound. Otherwise, undo passes n back, whatever the bounds.
func (p *Pool) Move(from, to string, n int64) (undo func(), full Full) {
	if from == to {
		return func() {}, NotFull
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.add(from, -n)
	if full := p.tryAcquire(to, n); full != NotFull {
		p.add(from, n)
		return nil, full
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.add(to, -n)
		p.add(from, n)
	}, NotFull
}

// Release returns n of an owner's amount to the pool.
func (p *Pool) Release(owner string, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.add(owner, -n)
}

func (p *Pool) add(owner string, n int64) {
	p.held += n
	if p.by[owner] += n; p.by[owner] <= 0 {
		delete(p.by, owner)
	}
}

// Held returns the sum that all owners hold.
func (p *Pool) Held() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}
