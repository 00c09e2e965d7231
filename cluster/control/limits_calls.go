package control

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/limitproto"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/snapshotio"
)

// SetLimits is like ChangeLimits, with any version expected and no author.
func (s *Store) SetLimits(ctx context.Context, limits []quota.Limit) (version uint64, changed bool, err error) {
	v, changed, err := s.ChangeLimits(ctx, quota.Change{Limits: limits, Expect: quota.AnyVersion})
	return v.Number, changed, err
}

// ChangeLimits replaces the cluster's limits through the leader of the meta group, and waits up to
// two seconds until every connected node has them. It returns the new version and true, or, if
// these limits are already active, the current version and false. With RollbackTo, it restores the
// limits of that version and ignores c.Limits.
//
// Nothing changes after a ConflictError (the current version is not c.Expect), an
// UnknownVersionError (RollbackTo is not in the history), or an error that describes invalid
// limits. If there is no leader for ten seconds or until ctx ends, ChangeLimits returns a
// NoLeaderError, or an UnknownOutcomeError if the change may have been made or may be made later.
func (s *Store) ChangeLimits(ctx context.Context, c quota.Change) (v quota.Version, changed bool, err error) {
	p, err := limitsProposal(&c, s.node.Now())
	if err != nil {
		return v, false, err
	}
	res, err := proposeFor[limitsResult](ctx, s, "limits", p)
	if err != nil {
		return v, false, err
	}
	if res.err == nil {
		s.waitSpread(ctx, res.version.Number)
	}
	return res.version, res.changed, res.err
}

// LimitVersions returns at most count versions of the limits that this node has applied, newest
// first and with numbers below before; 0 means no bound. The history has the newest 1000 versions,
// or fewer if they are large.
func (s *Store) LimitVersions(_ context.Context, before uint64, count int) ([]quota.Version, error) {
	return s.machine.versions(before, count), nil
}

// LimitsAt returns a version and its limits, sorted by name. If this node has not applied the
// version or the history no longer has it, LimitsAt returns an UnknownVersionError.
func (s *Store) LimitsAt(_ context.Context, version uint64) (quota.Version, []quota.Limit, error) {
	v, err := s.machine.version(version)
	if err != nil {
		return quota.Version{}, nil, err
	}
	limits, err := v.decode()
	return v.info, limits.All(), err
}

// limitsProposal validates a change. It gives the proposal a random ID, so that it does not conflict
// with itself if it is repeated after a lost answer.
func limitsProposal(c *quota.Change, now quota.Time) (proposal, error) {
	errs := []error{limitproto.CheckText("by", c.By, quota.MaxNameLen), limitproto.CheckText("comment", c.Comment, quota.MaxCommentLen)}
	if c.Expect < quota.AnyVersion {
		errs = append(errs, fmt.Errorf("expected version: %d; must be a version, 0 for none yet, or %d for any", c.Expect, quota.AnyVersion))
	}
	list := c.Limits
	if c.RollbackTo > 0 {
		list = nil
	}
	limits, err := quota.NewLimits(0, list)
	if err := errors.Join(append(errs, err)...); err != nil {
		return proposal{}, err
	}
	set := EncodeLimits(limits.All(), time.Time{})
	set.AtUnixNanos, set.By, set.Comment, set.RollbackTo = int64(now), c.By, c.Comment, c.RollbackTo
	if c.Expect != quota.AnyVersion {
		set.Expect = new(uint64(c.Expect))
	}
	set.RequestId = make([]byte, 16)
	_, _ = rand.Read(set.RequestId) // never fails
	p, err := newProposal(&raftlogv1.MetaCommand{Change: &raftlogv1.MetaCommand_SetLimits{SetLimits: set}})
	p.call = func(command []byte) *peerv1.Call {
		return &peerv1.Call{Body: &peerv1.Call_SetLimits{SetLimits: &peerv1.CallSetLimits{Command: command}}}
	}
	p.result = func(c *peerv1.Call) any { return decodeLimitsResult(c.GetSetLimitsResult()) }
	return p, err
}

// encodeLimitsResult keeps the types of the errors that callers check for.
func encodeLimitsResult(out any) *peerv1.CallSetLimitsResult {
	res, ok := out.(limitsResult)
	if !ok {
		res.err = fmt.Errorf("limits: the log answered %v", out)
	}
	r := &peerv1.CallSetLimitsResult{
		Version: res.version.Number, Changed: res.changed, Info: snapshotio.Encode(encodeVersion(&res.version, nil)),
	}
	var conflict *quota.ConflictError
	var unknown *quota.UnknownVersionError
	switch {
	case errors.As(res.err, &conflict):
		r.Conflict = &peerv1.LimitsConflict{Expected: conflict.Expected, Current: conflict.Current, By: conflict.By}
	case errors.As(res.err, &unknown):
		r.Unknown = &peerv1.LimitsUnknown{Version: unknown.Version, Oldest: unknown.Oldest, Newest: unknown.Newest}
	case res.err != nil:
		r.Fault = res.err.Error()
	}
	return r
}

func decodeLimitsResult(r *peerv1.CallSetLimitsResult) limitsResult {
	var info raftlogv1.LimitsVersion
	if err := proto.Unmarshal(r.GetInfo(), &info); err != nil {
		return limitsResult{err: fmt.Errorf("limits: answer of the meta leader: %w", err)}
	}
	info.Number = r.GetVersion() // an older node sends only the number
	res := limitsResult{version: decodeVersion(&info), changed: r.GetChanged()}
	switch {
	case r.GetConflict() != nil:
		c := r.GetConflict()
		res.err = &quota.ConflictError{Expected: c.GetExpected(), Current: c.GetCurrent(), By: c.GetBy()}
	case r.GetUnknown() != nil:
		u := r.GetUnknown()
		res.err = &quota.UnknownVersionError{Version: u.GetVersion(), Oldest: u.GetOldest(), Newest: u.GetNewest()}
	case r.GetFault() != "":
		res.err = errors.New(r.GetFault())
	}
	return res
}

// waitSpread waits up to SpreadWait until this node and all connected peers have the version.
func (s *Store) waitSpread(ctx context.Context, version uint64) {
	behind := func() []quota.NodeID {
		return s.node.Behind(func(p Progress) bool { return p.Limits < version })
	}
	spread := func() bool { return s.node.Limits().Version >= version && len(behind()) == 0 }
	if s.waitHere(ctx, spread); !spread() {
		s.log.Warn("limits have not reached all nodes yet", "version", version, "behind", behind())
	}
}
