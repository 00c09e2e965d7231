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
	mu   sync.Mutex
	busy bool
	next *catchUp // of the callers that arrived since, or nil
}

// catchUp is one question to the meta leader.
type catchUp struct {
	done chan struct{}
	err  error // set before done is closed
}

// catchUp waits until this node has applied all policies that were committed when it was called.
func (s *Store) catchUp(ctx context.Context) error {
	q := s.joinCatchUp()
	select {
	case <-q.done:
		return q.err
	case <-ctx.Done():
		return &quota.NoLeaderError{Reason: "the meta group did not say whether the policy is loaded: " + ctx.Err().Error()}
	case <-s.stop:
		return &quota.NoLeaderError{Reason: "this node is stopping"}
	}
}

func (s *Store) joinCatchUp() *catchUp {
	c := &s.catchUps
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		c.next = &catchUp{done: make(chan struct{})}
	}
	if !c.busy {
		c.busy = true
		go s.runCatchUps()
	}
	return c.next
}

// pop returns the waiting callers' question. It returns nil, and clears busy, if no caller waits.
func (c *catchUps) pop() *catchUp {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.next
	c.next, c.busy = nil, q != nil
	return q
}

// runCatchUps asks the leader until no caller waits.
func (s *Store) runCatchUps() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-s.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	for q := s.catchUps.pop(); q != nil; q = s.catchUps.pop() {
		_, q.err = s.awaitCommitted(ctx)
		close(q.done)
	}
}
