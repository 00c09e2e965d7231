package control

import (
	"context"
	"sync"

	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// Resolve returns the policies of refs, in their order, with nil for those that are not loaded. It
// returns nil for a policy only after this node has applied everything that was committed when
// Resolve was called, so it finds a config that was loaded through any node. For policies that this
// node has, it takes no lock and does not wait. The policies are immutable. If it must ask the
// leader and there is no leader, it returns a NoLeaderError.
func (s *Store) Resolve(ctx context.Context, refs []account.PolicyRef) ([]*account.Policy, error) {
	found, all := s.machine.Policies.Load().resolve(refs)
	if all {
		return found, nil
	}
	if err := s.catchUp(ctx); err != nil {
		return nil, err
	}
	found, _ = s.machine.Policies.Load().resolve(refs)
	return found, nil
}

func (t *policyTable) resolve(refs []account.PolicyRef) (found []*account.Policy, all bool) {
	found, all = make([]*account.Policy, len(refs)), true
	var last *policyConfig // the operations of a call mostly share one config
	for i := range refs {
		if last == nil || last.id != refs[i].Config {
			last = t.Find(refs[i].Config)
		}
		if last != nil {
			found[i] = last.find(refs[i].Key)
		}
		all = all && found[i] != nil
	}
	return found, all
}

// catchUps lets all callers that miss something share one question to the meta leader at a time. A
// caller that arrives while one is in flight waits for the next, because the answer does not cover
// what was loaded since.
type catchUps struct {
	mu      sync.Mutex
	next    *catchUp      // joined by callers that arrive now, or nil
	waiting chan *catchUp // holds next; one place
}

// catchUp is one question to the meta leader.
type catchUp struct {
	done chan struct{}
	err  error // set before done is closed
}

// catchUp waits until this node has applied all policies that were committed when it was called.
func (s *Store) catchUp(ctx context.Context) error {
	q := s.catchUps.join()
	select {
	case <-q.done:
		return q.err
	case <-ctx.Done():
		return &quota.NoLeaderError{Reason: "the meta group did not say whether the policy is loaded: " + ctx.Err().Error()}
	case <-s.ctx.Done():
		return &quota.NoLeaderError{Reason: "this node is stopping"}
	}
}

// join returns the question that is asked next.
func (c *catchUps) join() *catchUp {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		c.next = &catchUp{done: make(chan struct{})}
		c.waiting <- c.next
	}
	return c.next
}

// runCatchUps asks the meta leader, one question at a time.
func (s *Store) runCatchUps() {
	c := &s.catchUps
	for {
		select {
		case <-s.ctx.Done():
			return
		case q := <-c.waiting:
			c.mu.Lock()
			c.next = nil // later callers need a later answer
			c.mu.Unlock()
			_, q.err = s.awaitCommitted(s.ctx)
			close(q.done)
		}
	}
}
