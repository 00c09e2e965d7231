package membership

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/internal/backoff"
	"github.com/quorate/quorate/internal/pki"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/snapshotio"
)

// changeLimit bounds a call of Change.
const changeLimit = 10 * time.Second

// Change carries out a call of ClusterService that needs the leader of the meta
// group. It takes the request of the call and returns its response. by is the
// caller's identity. A refusal is an *Error, a missing leader a *quota.NoLeaderError, and a lost
// answer may be a *quota.UnknownOutcomeError. Change retries until ctx ends,
// for at most ten seconds. If an answer was lost and others have changed the membership since, it does
// not repeat the change, because that could undo theirs.
func (s *Service) Change(ctx context.Context, by string, req proto.Message) (proto.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, changeLimit)
	defer cancel()
	if err := s.Await(ctx, methodOf(req)); err != nil {
		return nil, err
	}
	c, doubt := &caller{by: by, seed: pki.NewSeed()}, false
	for {
		res, err := s.changeUnlessMade(ctx, c, req, doubt)
		if r, ok := res.(*quoratev1.RotateAuthorityResponse); ok && err == nil {
			s.addSeen(r)
		}
		refusal := (*Error)(nil)
		if err == nil || errors.As(err, &refusal) {
			return res, err
		}
		doubt = doubt || errors.Is(err, errInDoubt)
		if stale := (*staleError)(nil); !doubt && errors.As(err, &stale) && stale.revision > c.revision {
			c.revision = stale.revision // even if this node does not have it yet
			continue
		}
		if !errors.Is(err, errChangedSince) && backoff.Sleep(ctx, retryPause) == nil {
			continue
		}
		if doubt {
			return nil, &quota.UnknownOutcomeError{Reason: fmt.Sprintf("the change of the cluster may have been made; look before you repeat it: %v", err)}
		}
		return nil, &quota.NoLeaderError{Reason: fmt.Sprintf("the change of the cluster was not made: %v", err)}
	}
}

// errInDoubt means that a change of the cluster may have been made.
var errInDoubt = errors.New("the outcome is not known")

// errChangedSince ends Change: the change may have been made and then changed by others.
var errChangedSince = errors.New("others made changes since")

// changeUnlessMade makes one try. If doubt is true, the answer of an earlier try was lost: then it makes another only if
// the membership still has the revision of that try. Otherwise, it returns the response if the membership is one after the
// change, and else errChangedSince. At most one try of a revision is carried out, even if an earlier one still runs.
func (s *Service) changeUnlessMade(ctx context.Context, c *caller, req proto.Message, doubt bool) (proto.Message, error) {
	made := s.changes[methodOf(req)].made
	if !doubt || made == nil {
		c.revision = max(c.revision, s.node.Table().Revision())
		return s.changeOnce(ctx, c, req)
	}
	out, err := s.changeOnce(ctx, c, &raftlogv1.ChangeMembers{})
	if err != nil {
		return nil, fmt.Errorf("whether it was made is not known: %v", err) //nolint:errorlint // a refusal of this is not one of the change
	}
	switch now := out.(*raftlogv1.Membership).GetRevision(); {
	case now == c.revision:
		return s.changeOnce(ctx, c, req)
	case s.node.Table().Revision() < now:
		return nil, errors.New("this node does not have the newest membership yet")
	}
	res, err := made(c, s.node.Table(), req)
	if res == nil && err == nil {
		err = errChangedSince
	}
	return res, err
}

// barrier adds an entry without a change to the log, and returns the revision after all entries before it.
func (s *Service) barrier(ctx context.Context, _ *caller, _ *raftlogv1.ChangeMembers) (*raftlogv1.Membership, error) {
	if _, err := s.node.Commit(ctx, &raftlogv1.ChangeMembers{}); !errors.Is(err, ErrStale) { // no membership has the revision 0
		return nil, err
	}
	return &raftlogv1.Membership{Revision: s.node.Table().Revision()}, nil
}

// changeOnce makes one try. After errInDoubt the change may have been carried out, or may be later.
func (s *Service) changeOnce(ctx context.Context, c *caller, req proto.Message) (proto.Message, error) {
	if s.LeadsMeta() {
		res, err := s.carryOutChange(ctx, c, req)
		if errors.Is(err, raftgroup.ErrUncertain) {
			err = fmt.Errorf("%w: %w", errInDoubt, err)
		}
		return res, err
	}
	to := s.node.MetaLeader()
	if to == "" || to == s.cfg.Self {
		return nil, errors.New("the meta group has no leader")
	}
	msg := &peerv1.CallCluster{Method: methodOf(req), Request: snapshotio.Encode(req), By: c.by, Seed: c.seed[:], Revision: c.revision}
	res, err := s.node.CallSlow(ctx, to, &peerv1.Call{Body: &peerv1.Call_Cluster{Cluster: msg}})
	if err != nil && !transport.Unsent(err) {
		err = fmt.Errorf("%w: %w", errInDoubt, err)
	}
	if err != nil {
		return nil, err
	}
	return s.decodeChange(res.GetClusterResult(), req)
}

// methodOf returns the method of ClusterService to which a request belongs.
func methodOf(req proto.Message) string {
	return strings.TrimSuffix(string(req.ProtoReflect().Descriptor().Name()), "Request")
}

// change describes a call of ClusterService that the leader of the meta group carries out.
type change struct {
	request, response proto.Message // empty messages, to create others from
	carryOut          func(ctx context.Context, c *caller, req proto.Message) (proto.Message, error)
	// made returns the response if the table is one after the change, or else nil. It is nil for calls that do not
	// change the membership.
	made func(c *caller, t *Table, req proto.Message) (proto.Message, error)
}

// caller is the origin of a change, with the parameters that a retry reuses.
type caller struct {
	by       string   // identity
	seed     pki.Seed // of a secret that the change creates; a retry creates the same secret
	revision uint64   // of the only membership that it may change, so that one of several tries is made; 0 if any
}

func (s *Service) addChanges() {
	s.changes = map[string]change{}
	addCall(s, s.barrier)
	addCall(s, s.leaderStatus)
	addCall(s, s.listTokens)
	addCall(s, s.getPlan)
	addCall(s, s.transferLeadership)
	addCall(s, s.issueCertificate)
	addChange(s, s.join, s.joined)
	addChange(s, s.createToken, s.tokenCreated)
	addChange(s, s.revokeToken, tokenRevoked)
	addChange(s, s.changeNode, s.nodeChanged)
	addChange(s, s.rotateAuthority, s.rotated)
}

// addCall adds a call that may be repeated.
func addCall[Q, A proto.Message](s *Service, f func(ctx context.Context, c *caller, r Q) (A, error)) {
	var q Q
	var a A
	s.changes[methodOf(q)] = change{
		request: q.ProtoReflect().New().Interface(), response: a.ProtoReflect().New().Interface(),
		carryOut: func(ctx context.Context, c *caller, r proto.Message) (proto.Message, error) { return f(ctx, c, r.(Q)) },
	}
}

// addChange adds a call that changes the membership. made reports whether a table is one after the change, and then
// returns the response.
func addChange[Q, A proto.Message](s *Service, f func(ctx context.Context, c *caller, r Q) (A, error), made func(c *caller, t *Table, r Q) (A, bool, error)) {
	addCall(s, f)
	var q Q
	added := s.changes[methodOf(q)]
	added.made = func(c *caller, t *Table, r proto.Message) (proto.Message, error) {
		res, ok, err := made(c, t, r.(Q))
		if !ok || err != nil {
			return nil, err
		}
		return res, nil
	}
	s.changes[methodOf(q)] = added
}

// onCluster carries out a change that another node forwarded.
func (s *Service) onCluster(ctx context.Context, c *peerv1.CallCluster) *peerv1.CallClusterResult {
	m, ok := s.changes[c.GetMethod()]
	if !ok {
		return failedChange(&Error{Text: fmt.Sprintf("this version does not know the call %q; upgrade every node", c.GetMethod())})
	}
	req := m.request.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(c.GetRequest(), req); err != nil {
		return failedChange(err)
	}
	if !s.LeadsMeta() {
		return failedChange(raftgroup.ErrNotLeader)
	}
	by := &caller{by: c.GetBy(), revision: c.GetRevision()}
	if copy(by.seed[:], c.GetSeed()) != len(by.seed) {
		return failedChange(refuse(Invalid, "seed: %d bytes; must be %d", len(c.GetSeed()), len(by.seed)))
	}
	res, err := s.carryOutChange(ctx, by, req)
	if err != nil {
		return failedChange(err)
	}
	return &peerv1.CallClusterResult{Response: snapshotio.Encode(res)}
}

// failedChange encodes the error of a change. A refusal keeps its code. Any other error can be
// retried if a retry does no harm: Unavailable means that nothing was done, Unknown that the change
// may have been made.
func failedChange(err error) *peerv1.CallClusterResult {
	st := &spb.Status{Code: int32(codes.Unavailable), Message: err.Error()}
	if errors.Is(err, raftgroup.ErrUncertain) {
		st.Code = int32(codes.Unknown)
	}
	if refusal := (*Error)(nil); errors.As(err, &refusal) {
		st.Code = int32(refusal.Kind.Code())
	}
	res := &peerv1.CallClusterResult{Status: snapshotio.Encode(st)}
	if stale := (*staleError)(nil); errors.As(err, &stale) {
		res.Revision = stale.revision
	}
	return res
}

func (s *Service) decodeChange(r *peerv1.CallClusterResult, req proto.Message) (proto.Message, error) {
	if len(r.GetStatus()) > 0 {
		var st spb.Status
		if err := proto.Unmarshal(r.Status, &st); err != nil {
			return nil, err
		}
		switch codes.Code(st.Code) { //nolint:exhaustive // the others are refusals
		case codes.Unavailable:
			if r.GetRevision() != 0 {
				return nil, &staleError{r.GetRevision()}
			}
			return nil, errors.New(st.Message)
		case codes.Unknown:
			return nil, fmt.Errorf("%w: %s", errInDoubt, st.Message)
		}
		return nil, &Error{Kind: KindOf(codes.Code(st.Code)), Text: st.Message}
	}
	res := s.changes[methodOf(req)].response.ProtoReflect().New().Interface()
	return res, proto.Unmarshal(r.GetResponse(), res)
}

// carryOutChange carries out a call as the leader of the meta group.
func (s *Service) carryOutChange(ctx context.Context, c *caller, req proto.Message) (proto.Message, error) {
	if _, asks := req.(*quoratev1.GetStatusRequest); !asks && !s.node.Table().Seeded() { // only briefly after the first start
		return nil, errors.New("the cluster has no membership yet: it makes one once all its nodes are connected")
	}
	m, ok := s.changes[methodOf(req)]
	if !ok {
		return nil, refuse(Invalid, "request %s: does not change the cluster", req.ProtoReflect().Descriptor().Name())
	}
	return m.carryOut(ctx, c, req)
}

// amend builds a change from the newest membership and commits it. If make returns nil, amend commits nothing. If
// another change came first, amend builds the change again if revision is 0, or else returns a *staleError: it then
// changes only the membership of that revision.
func (s *Service) amend(ctx context.Context, revision uint64, make func(t *Table) (*raftlogv1.ChangeMembers, error)) (*Table, error) {
	for {
		t := s.node.Table()
		if revision != 0 && revision != t.Revision() {
			return nil, &staleError{t.Revision()}
		}
		c, err := make(t)
		if c == nil || err != nil {
			return t, err
		}
		after, err := s.commitMembers(ctx, t, c)
		if !errors.Is(err, ErrStale) {
			return after, err
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// membershipWait bounds how long a change waits for the membership of a cluster that has just
// started. The meta leader creates it within moveEvery once all nodes are connected.
const membershipWait = 3 * time.Second

// retryPause is the pause between two tries of a call that waits for a leader or a membership.
const retryPause = 50 * time.Millisecond

// Await waits for the cluster to have a membership, for at most membershipWait. Its error names the
// nodes that have not connected yet, or says that the meta group has no leader.
func (s *Service) Await(ctx context.Context, what string) error {
	ctx, cancel := context.WithTimeout(ctx, membershipWait)
	defer cancel()
	for !s.node.Table().Seeded() {
		if backoff.Sleep(ctx, retryPause) != nil {
			return s.noMembership(what)
		}
	}
	return nil
}

func (s *Service) noMembership(what string) error {
	if s.node.MetaLeader() == "" {
		return &quota.NoLeaderError{Reason: what + ": the meta group has no leader"}
	}
	if away := slices.Sorted(maps.Keys(s.node.Silences())); len(away) > 0 {
		return refuse(Forbidden, "%s needs a membership, which the cluster makes once all its nodes are connected: %v not connected yet", what, away)
	}
	return &quota.NoLeaderError{Reason: what + ": the membership is not made yet"}
}
