package accounts

import (
	"context"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/account"
)

// owned tracks the accounts that transactions committed by this node still hold in other ranges.
// Calls through this node wait until these are free, because their attempts would fail.
type owned struct {
	mu   sync.Mutex
	over map[account.ID]chan struct{}
}

// recordOwned records the parts' accounts until the caller calls over.
func (s *Service) recordOwned(parts []part) (over func()) {
	done := make(chan struct{})
	s.owned.mu.Lock()
	defer s.owned.mu.Unlock()
	for i := range parts {
		for j := range parts[i].request.Ops {
			s.owned.over[parts[i].request.Ops[j].Account] = done
		}
	}
	return func() {
		s.owned.mu.Lock()
		defer s.owned.mu.Unlock()
		for i := range parts {
			for j := range parts[i].request.Ops {
				if id := parts[i].request.Ops[j].Account; s.owned.over[id] == done {
					delete(s.owned.over, id)
				}
			}
		}
		close(done)
	}
}

// ownLimit bounds the wait for this node's own transactions: the wait is only an optimization.
const ownLimit = 100 * time.Millisecond

// awaitOwn waits until no transaction that this node committed holds an account of the part, for at
// most ownLimit.
func (s *Service) awaitOwn(ctx context.Context, p *part) {
	ctx, cancel := context.WithTimeout(ctx, ownLimit)
	defer cancel()
	for i := range p.request.Ops {
		s.owned.mu.Lock()
		done := s.owned.over[p.request.Ops[i].Account]
		s.owned.mu.Unlock()
		if done == nil {
			continue
		}
		select {
		case <-done:
		case <-ctx.Done():
			return
		}
	}
}
