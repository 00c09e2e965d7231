package control

import (
	"context"
	"errors"
	"fmt"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/backoff"
	"github.com/quorate/quorate/internal/limitproto"
	"github.com/quorate/quorate/internal/quota"
)

// LoadPolicies stores a config of 1 to account.MaxPolicies policies. If a config with its ID
// exists, it changes nothing and does not look at the content; since this node may have missed a
// purge, it asks the meta leader first. An empty version is replaced by
// account.HashPolicies of the policies. stored is the ID with its version, and created reports
// whether this call stored the config. The caller must have validated the ID and the policies.
//
// LoadPolicies returns when this node has the config; every other node catches up on first use. It
// returns an account.PoliciesFullError if the config or the cluster's configs would be too large or
// too many. Without a leader it returns a NoLeaderError; the config may still be stored later, and
// the caller may repeat the call.
func (s *Store) LoadPolicies(ctx context.Context, by string, id account.ConfigID, policies map[account.PolicyKey]account.Policy) (stored account.ConfigID, created bool, err error) {
	if id.Version == "" {
		id.Version = account.HashPolicies(policies)
	}
	if s.machine.Policies.Load().Find(id) != nil {
		if err := s.catchUp(ctx); err != nil {
			return id, false, err
		}
	}
	t := s.machine.Policies.Load()
	if t.Find(id) != nil {
		return id, false, nil
	}
	c := newPolicyConfig(id, policies, s.node.Now(), by)
	if err := errors.Join(limitproto.CheckText("by", by, account.MaxBy), c.check()); err != nil {
		return id, false, err
	}
	if err := s.machine.checkBounds(t, c); err != nil {
		return id, false, err // saves an entry in the log
	}
	lost := false
	res, err := s.changePolicies(ctx, &raftlogv1.MetaCommand{Change: &raftlogv1.MetaCommand_LoadPolicies{
		LoadPolicies: &raftlogv1.LoadPolicies{Config: encodeConfig(c)},
	}}, func(t *policyTable) (made, changed bool) {
		have := t.Find(id)
		lost = have != nil
		return lost, lost && have.at == c.at && have.by == c.by
	})
	if err == nil && lost {
		err = s.LeaderHas(ctx, res.revision)
	}
	return id, res.changed, err
}

// LeaderHas waits until the meta leader has applied the given number of changes. A caller needs it
// when the leader's answer was lost: this node may have applied the change before the leader, and
// other nodes, which ask the leader, would not find the config yet.
func (s *Store) LeaderHas(ctx context.Context, revision uint64) error {
	for {
		has, err := s.awaitCommitted(ctx)
		if err != nil || has >= revision {
			return err
		}
		if backoff.Sleep(ctx, spreadPause) != nil {
			return &quota.NoLeaderError{Reason: "the leader of the meta group is behind: " + ctx.Err().Error()}
		}
	}
}

// PurgePolicies deletes a config, waits up to two seconds until all connected nodes have done so,
// and reports whether the config existed; if the leader's answer was lost, whether this node had it.
// Accounts keep their copy of the policy. Without a leader it returns a NoLeaderError, or an
// UnknownOutcomeError if the config may have been deleted or may be later.
func (s *Store) PurgePolicies(ctx context.Context, id account.ConfigID) (bool, error) {
	had := s.machine.Policies.Load().Find(id) != nil
	res, err := s.changePolicies(ctx, &raftlogv1.MetaCommand{Change: &raftlogv1.MetaCommand_PurgePolicies{
		PurgePolicies: &raftlogv1.PurgePolicies{Id: encodeConfigID(id)},
	}}, func(t *policyTable) (made, changed bool) { return t.Find(id) == nil, had })
	if err != nil {
		return false, err
	}
	behind := func() []quota.NodeID {
		return s.node.Behind(func(p Progress) bool { return p.Policies < res.revision })
	}
	s.waitHere(ctx, func() bool { return len(behind()) == 0 })
	if late := behind(); len(late) > 0 {
		s.log.Warn("a purge of policies has not reached all nodes yet", "version", id.Version, "behind", late)
	}
	return res.changed, nil
}

// Policies returns a config, or nil if it does not exist. Before it returns nil, it asks the leader
// of the meta group; without a leader it then returns a NoLeaderError.
func (s *Store) Policies(ctx context.Context, id account.ConfigID) (*account.Config, error) {
	c := s.machine.Policies.Load().Find(id)
	if c == nil {
		if err := s.catchUp(ctx); err != nil {
			return nil, err
		}
		c = s.machine.Policies.Load().Find(id)
	}
	if c == nil {
		return nil, nil
	}
	return c.whole(), nil
}

// ListPolicies returns up to limit, and at most 1000, configs of a realm with versions after the
// given one, as far as this node has applied them. They are sorted by version and lack their
// policies.
func (s *Store) ListPolicies(_ context.Context, app, realm, after string, limit int) ([]account.Config, error) {
	return s.machine.Policies.Load().list(app, realm, after, min(limit, account.MaxPage)), nil
}

// PolicyRealms returns up to limit, and at most 1000, realms that have configs and sort after the
// given one, sorted, as far as this node has applied them.
func (s *Store) PolicyRealms(after account.Realm, limit int) []account.Realm {
	return s.machine.Policies.Load().realms(after, min(limit, account.MaxPage))
}

// changePolicies proposes a change and waits until this node has applied it. If the answer was lost,
// after reports whether a table is one after the change, and whether the change was this one.
func (s *Store) changePolicies(ctx context.Context, cmd *raftlogv1.MetaCommand, after func(*policyTable) (made, changed bool)) (policiesResult, error) {
	p, err := newProposal(cmd)
	if err != nil {
		return policiesResult{}, fmt.Errorf("policies: %w", err)
	}
	p.lost = &lostAnswer{
		nothing:  &raftlogv1.MetaCommand{Change: &raftlogv1.MetaCommand_PurgePolicies{PurgePolicies: &raftlogv1.PurgePolicies{}}},
		revision: func(res any) uint64 { return policiesResultOf(res).revision },
		applied:  func() uint64 { return s.machine.Policies.Load().Revision },
		made: func() any {
			t := s.machine.Policies.Load()
			if made, changed := after(t); made {
				return policiesResult{changed: changed, revision: t.Revision}
			}
			return nil
		},
	}
	p.call = func(command []byte) *peerv1.Call {
		return &peerv1.Call{Body: &peerv1.Call_Policies{Policies: &peerv1.CallPolicies{Command: command}}}
	}
	p.result = func(c *peerv1.Call) any { return decodePoliciesResult(c.GetPoliciesResult()) }
	out, err := s.propose(ctx, p)
	if err != nil {
		return policiesResult{}, err
	}
	res := policiesResultOf(out)
	if res.err != nil {
		return res, res.err
	}
	return res, s.awaitPolicies(ctx, res.revision)
}

// awaitCommitted waits until this node has applied all changes of policy configs that were
// committed when it was called. It returns the number of changes that the meta leader had applied.
func (s *Store) awaitCommitted(ctx context.Context) (revision uint64, err error) {
	revision, err = untilDone(ctx, "say whether there are newer policies", func(ctx context.Context) (uint64, error) {
		revision, err := s.policiesCommitted(ctx)
		if !errors.Is(err, raftgroup.ErrNotLeader) {
			return revision, err
		}
		c, err := s.callLeader(ctx, &peerv1.Call{Body: &peerv1.Call_PoliciesRevision{PoliciesRevision: &peerv1.CallPoliciesRevision{}}})
		return c.GetPoliciesRevisionResult().GetRevision(), err
	})
	if err != nil {
		return 0, err
	}
	return revision, s.awaitPolicies(ctx, revision)
}

// policiesCommitted returns how many changes of policy configs this node has applied, after it has
// confirmed its leadership: these include all changes committed before the call. It adds nothing to
// the log. It returns raftgroup.ErrNotLeader if this node does not lead the meta group.
func (s *Store) policiesCommitted(ctx context.Context) (uint64, error) {
	g := s.node.MetaGroup()
	if g == nil {
		return 0, raftgroup.ErrNotLeader
	}
	if err := g.ConfirmLeadership(ctx); err != nil {
		return 0, err
	}
	return s.machine.Policies.Load().Revision, nil
}

// awaitPolicies waits up to SpreadWait until this node has applied the given number of changes.
func (s *Store) awaitPolicies(ctx context.Context, revision uint64) error {
	applied := func() bool { return s.machine.Policies.Load().Revision >= revision }
	if s.waitHere(ctx, applied); !applied() {
		return &quota.NoLeaderError{Reason: "this node has not heard of the newest policies yet"}
	}
	return nil
}

// policiesResultOf converts the result of a log entry.
func policiesResultOf(out any) policiesResult {
	if res, ok := out.(policiesResult); ok {
		return res
	}
	return policiesResult{err: fmt.Errorf("policies: the log answered %v", out)}
}

func encodePoliciesResult(res policiesResult) *peerv1.CallPoliciesResult {
	r := &peerv1.CallPoliciesResult{Changed: res.changed, Revision: res.revision}
	var full *account.PoliciesFullError
	switch {
	case errors.As(res.err, &full):
		r.Bound = &peerv1.PoliciesBound{What: full.What, Have: full.Have, Adding: full.Adding, Most: full.Most}
	case res.err != nil:
		r.Fault = res.err.Error()
	}
	return r
}

func decodePoliciesResult(r *peerv1.CallPoliciesResult) policiesResult {
	res := policiesResult{changed: r.GetChanged(), revision: r.GetRevision()}
	switch b := r.GetBound(); {
	case b != nil:
		res.err = &account.PoliciesFullError{What: b.GetWhat(), Have: b.GetHave(), Adding: b.GetAdding(), Most: b.GetMost()}
	case r.GetFault() != "":
		res.err = errors.New(r.GetFault())
	}
	return res
}
