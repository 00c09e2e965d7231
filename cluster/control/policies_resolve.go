package control

import (
	"context"
	"sync"

	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// Resolve returns the policies of refs, in their order, nil for those that are
// not loaded. Nothing counts as that before this node has all that was committed
// when it was called: a config that was loaded through any node is found. What
// this node has costs no lock and no wait. The policies are never changed. The
// lack of a leader, where one must be asked, is a NoLeaderError.
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
	var last *policyConfig // operations of one call mostly have the same
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

// catchUps lets all who find something missing share one question to the meta
// leader at a time. Who comes while it is under way waits for the next: what was
// loaded since is not in the answer.
type catchUps struct {
	mu   sync.Mutex
	busy bool
	next *catchUp // of those who came since; nil: nobody
}

// catchUp is one question.
type catchUp struct {
	done chan struct{}
	err  error // after done
}

// catchUp waits until this node has applied all policies that were committed when
// it was called.
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

// pop returns the question of those who wait; nil ends the asking.
func (c *catchUps) pop() *catchUp {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.next
	c.next, c.busy = nil, q != nil
	return q
}

// runCatchUps asks until nobody waits.
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
