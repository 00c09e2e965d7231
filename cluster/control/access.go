package control

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
)

// security is the access part of the meta group's state: role bindings and bearer tokens.
type security struct {
	table   atomic.Pointer[rbac.Table] // replaced only by Apply and Restore
	Changed func()                     // called after Apply changed the table
}

func (s *security) apply(c *raftlogv1.ChangeSecurity) rbac.Result {
	next, res := s.table.Load().Apply(c)
	s.table.Store(next)
	if res.Changed {
		s.Changed()
	}
	return res
}

// Security returns the role bindings and tokens that this node has applied. The table is immutable.
func (s *Store) Security() *rbac.Table { return s.machine.Security.table.Load() }

// SetBinding adds a binding, or replaces the one with the same identity, role and scope, and
// reports whether anything changed. The caller must have validated the binding. SetBinding returns
// when all connected nodes have applied the change, or after two seconds. Without a leader it
// returns a NoLeaderError, or an UnknownOutcomeError if the change may have been made or may be made
// later.
func (s *Store) SetBinding(ctx context.Context, b rbac.Binding) (bool, error) {
	return s.changeSecurity(ctx, &raftlogv1.ChangeSecurity{Change: &raftlogv1.ChangeSecurity_SetBinding{SetBinding: rbac.EncodeBinding(&b)}})
}

// DeleteBinding deletes the binding with the given identity, role and scope, and reports whether it
// existed. Otherwise it behaves like SetBinding.
func (s *Store) DeleteBinding(ctx context.Context, b rbac.Binding) (bool, error) {
	return s.changeSecurity(ctx, &raftlogv1.ChangeSecurity{Change: &raftlogv1.ChangeSecurity_DeleteBinding{DeleteBinding: rbac.EncodeBinding(&b)}})
}

// AddToken adds a bearer token. Otherwise it behaves like SetBinding.
func (s *Store) AddToken(ctx context.Context, t rbac.Token) error {
	_, err := s.changeSecurity(ctx, &raftlogv1.ChangeSecurity{Change: &raftlogv1.ChangeSecurity_AddToken{AddToken: rbac.EncodeToken(&t)}})
	return err
}

// RevokeToken deletes a bearer token and reports whether it existed. Otherwise it behaves like
// SetBinding. A node that is cut off accepts the token until it learns of the change.
func (s *Store) RevokeToken(ctx context.Context, id string) (bool, error) {
	return s.changeSecurity(ctx, &raftlogv1.ChangeSecurity{Change: &raftlogv1.ChangeSecurity_RevokeToken{RevokeToken: id}})
}

func (s *Store) changeSecurity(ctx context.Context, c *raftlogv1.ChangeSecurity) (bool, error) {
	if err := s.node.AwaitMembership(ctx, "a change of permissions"); err != nil {
		return false, err
	}
	c.AtUnixNanos = int64(s.node.Now())
	_, before := s.Security().Apply(c)
	p, err := newProposal(&raftlogv1.MetaCommand{Change: &raftlogv1.MetaCommand_ChangeSecurity{ChangeSecurity: c}})
	if err != nil {
		return false, fmt.Errorf("security: %w", err)
	}
	p.call = func(command []byte) *peerv1.Call {
		return &peerv1.Call{Body: &peerv1.Call_Security{Security: &peerv1.CallSecurity{Command: command}}}
	}
	p.result = func(c *peerv1.Call) any {
		r := c.GetSecurityResult()
		out := rbac.Result{Changed: r.GetChanged(), Revision: r.GetRevision()}
		if r.GetFault() != "" {
			out.Err = errors.New(r.GetFault())
		}
		return out
	}
	p.lost = &lostAnswer{
		nothing:  &raftlogv1.MetaCommand{Change: &raftlogv1.MetaCommand_ChangeSecurity{ChangeSecurity: &raftlogv1.ChangeSecurity{}}},
		revision: func(res any) uint64 { r, _ := res.(rbac.Result); return r.Revision },
		applied:  func() uint64 { return s.Security().Revision() },
		made: func() any {
			t := s.Security()
			if _, again := t.Apply(c); again.Changed || again.Err != nil {
				return nil
			}
			return rbac.Result{Changed: before.Changed, Revision: t.Revision()}
		},
	}
	res, err := proposeFor[rbac.Result](ctx, s, "security", p)
	if err == nil {
		err = res.Err
	}
	if err != nil {
		return false, err
	}
	s.securityEverywhere(ctx, res.Revision)
	return res.Changed, nil
}

// securityEverywhere waits up to SpreadWait until all connected nodes have applied the given number
// of changes.
func (s *Store) securityEverywhere(ctx context.Context, revision uint64) {
	behind := func() []quota.NodeID {
		return s.node.Behind(func(p Progress) bool { return p.Security < revision })
	}
	s.waitHere(ctx, func() bool { return s.Security().Revision() >= revision && len(behind()) == 0 })
	if late := behind(); len(late) > 0 {
		s.log.Warn("a permission change has not reached all nodes yet", "revision", revision, "behind", late)
	}
}

func encodeSecurityResult(out any) *peerv1.CallSecurityResult {
	res, ok := out.(rbac.Result)
	if !ok {
		return &peerv1.CallSecurityResult{Fault: fmt.Sprintf("the log answered %v", out)}
	}
	r := &peerv1.CallSecurityResult{Changed: res.Changed, Revision: res.Revision}
	if res.Err != nil {
		r.Fault = res.Err.Error()
	}
	return r
}
