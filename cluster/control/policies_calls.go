package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/limitproto"
	"github.com/quorate/quorate/internal/quota"
)

// maxListedPolicies bounds one answer of ListPolicies.
const maxListedPolicies = 1000

// LoadPolicies stores a config of 1 to account.MaxPolicies policies, unless there
// is one of its id: then it returns at once, without looking at the content. An
// empty version is account.HashPolicies of the policies. stored is the id with
// its version, and created whether this call has stored it. The caller has
// checked that ids and policies are valid.
//
// It answers when this node has the config; every other node has it as soon as
// somebody uses it there. Too many configs in the cluster, or too large ones, are
// an account.PoliciesFullError. The lack of a leader is a NoLeaderError, after
// which the config may be stored later nevertheless: the call may be repeated.
func (s *Store) LoadPolicies(ctx context.Context, by string, id account.ConfigID, policies map[account.PolicyKey]account.Policy) (stored account.ConfigID, created bool, err error) {
	if id.Version == "" {
		id.Version = account.HashPolicies(policies)
	}
	t := s.machine.Policies.Load()
	if t.Find(id) != nil {
		return id, false, nil
	}
	c := newPolicyConfig(id, policies, s.node.Now(), by)
	if err := errors.Join(limitproto.CheckText("by", by, account.MaxBy), c.check()); err != nil {
		return id, false, err
	}
	if err := s.machine.admits(t, c); err != nil {
		return id, false, err // not worth an entry of the log
	}
	made := func() bool {
		have := s.machine.Policies.Load().Find(id)
		return have != nil && have.at == c.at && have.by == c.by
	}
	res, err := s.changePolicies(ctx, made, &raftlogv1.MetaCommand{Change: &raftlogv1.MetaCommand_LoadPolicies{
		LoadPolicies: &raftlogv1.LoadPolicies{Config: encodeConfig(c)},
	}})
	if err == nil && !res.changed && made() {
		return id, true, s.LeaderHas(ctx, res.revision)
	}
	return id, res.changed, err
}

// LeaderHas waits until the meta leader has applied so many changes. Its answer
// would have said so, but was lost; and this node may have applied them first. Then
// other nodes, which ask the leader, would not find the config yet.
func (s *Store) LeaderHas(ctx context.Context, revision uint64) error {
	for {
		has, err := s.awaitCommitted(ctx)
		if err != nil || has >= revision {
			return err
		}
		select {
		case <-ctx.Done():
			return &quota.NoLeaderError{Reason: "the leader of the meta group is behind: " + ctx.Err().Error()}
		case <-time.After(spreadPause):
		}
	}
}

// PurgePolicies deletes a config, waits (at most two seconds) until all connected
// nodes have done so, and reports whether it was there. After a lost answer of
// the leader the deletion is repeated, and then it was not. Accounts keep their
// copy of the policy. The lack of a leader is a NoLeaderError.
func (s *Store) PurgePolicies(ctx context.Context, id account.ConfigID) (bool, error) {
	res, err := s.changePolicies(ctx, nil, &raftlogv1.MetaCommand{Change: &raftlogv1.MetaCommand_PurgePolicies{
		PurgePolicies: &raftlogv1.PurgePolicies{Id: encodeConfigID(id)},
	}})
	if err != nil {
		return false, err
	}
	behind := func() []quota.NodeID {
		return s.node.Behind(func(p Progress) bool { return p.Policies < res.revision })
	}
	s.waitHere(ctx, func() bool { return len(behind()) == 0 })
	if late := behind(); len(late) > 0 {
		s.log.Warn("policies are not purged everywhere yet", "version", id.Version, "behind", late)
	}
	return res.changed, nil
}

// Policies returns a config, or nil if there is none. Before it says that, it asks
// the leader of the meta group; the lack of one is a NoLeaderError.
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

// ListPolicies returns up to limit and up to 1000 configs of a realm behind a
// version, without their policies, sorted by version, as far as this node has
// applied them.
func (s *Store) ListPolicies(_ context.Context, app, realm, after string, limit int) ([]account.Config, error) {
	return s.machine.Policies.Load().list(app, realm, after, min(limit, maxListedPolicies)), nil
}

// changePolicies proposes a change and waits until this node has applied it.
func (s *Store) changePolicies(ctx context.Context, made func() bool, cmd *raftlogv1.MetaCommand) (policiesResult, error) {
	p, err := newProposal(cmd)
	if err != nil {
		return policiesResult{}, fmt.Errorf("policies: %w", err)
	}
	p.made = made
	p.call = func(command []byte) *peerv1.Call {
		return &peerv1.Call{Body: &peerv1.Call_Policies{Policies: &peerv1.CallPolicies{Command: command}}}
	}
	p.result = func(c *peerv1.Call) any { return decodePoliciesResult(c.GetPoliciesResult()) }
	out, err := s.propose(ctx, p)
	if err != nil {
		return policiesResult{}, err
	}
	if out == nil { // the answer was lost, and this node has applied the change
		return policiesResult{revision: s.machine.Policies.Load().Revision}, nil
	}
	res := policiesResultOf(out)
	if res.err != nil {
		return res, res.err
	}
	return res, s.awaitPolicies(ctx, res.revision)
}

// awaitCommitted waits until this node has applied all changes of policy configs that were
// committed when it was called, and returns how many the meta leader had applied.
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

// policiesCommitted returns how many changes of policy configs this node has applied, once these
// are all that were committed when it was called. It leaves nothing in the log. The error is
// raftgroup.ErrNotLeader where this node does not lead the meta group.
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

// awaitPolicies waits, a little, until this node has applied so many changes.
func (s *Store) awaitPolicies(ctx context.Context, revision uint64) error {
	applied := func() bool { return s.machine.Policies.Load().Revision >= revision }
	if s.waitHere(ctx, applied); !applied() {
		return &quota.NoLeaderError{Reason: "this node has not heard of the newest policies yet"}
	}
	return nil
}

// policiesResultOf returns the result of an entry of the log.
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
