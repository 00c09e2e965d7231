package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/limitproto"
	"github.com/quorate/quorate/internal/quota"
)

// Bounds of calls about overrides.
const (
	// MaxOverridesCall bounds the overrides of one SetOverrides, the keys of one DeleteOverrides,
	// and the result of one ListOverrides.
	MaxOverridesCall = 10_000
	overridesBatch   = 1000 // per log entry
	maxFaults        = 10   // faulty overrides reported in one error
)

// Override implements quota.Overrides: it returns the override of a key as far as this node has
// applied it, or nil. It takes no lock and allocates only the result.
func (s *Store) Override(k quota.Key) *quota.Override { return s.machine.Override(k) }

// SetOverrides sets at most 10,000 overrides through the leader of the meta group, replaces
// existing ones, and waits up to two seconds until this node has them. It sets At to the current
// time. While the group has a leader and the nodes agree on the time, an override is deleted within a
// second of its expiry, mostly within a tenth of a second.
//
// SetOverrides first checks all overrides against the current limits of this node: if one is
// invalid, expired, duplicated, or not possible for its limit, it sets none. It then sets them in
// the given order in batches of a thousand, each batch as a whole or not at all. If the group fails
// in between, the error says how many are certain to be set.
//
// It returns a TooManyOverridesError if the cluster would have more than quota.MaxOverrides, and
// without a leader a NoLeaderError, or an UnknownOutcomeError if a batch may have been set or may be
// set later.
func (s *Store) SetOverrides(ctx context.Context, list []quota.Override) error {
	now := s.node.Now()
	if err := s.checkOverrides(list, now); err != nil {
		return err
	}
	done := 0
	for batch := range slices.Chunk(list, overridesBatch) {
		set := &raftlogv1.SetOverrides{}
		for i := range batch {
			o := batch[i]
			o.At = now
			set.Overrides = append(set.Overrides, limitproto.EncodeOverride(&o))
		}
		made := func(t *overrideTable) bool { return slices.ContainsFunc(set.Overrides, t.has) }
		_, err := s.changeOverrides(ctx, &raftlogv1.MetaCommand{Change: &raftlogv1.MetaCommand_SetOverrides{SetOverrides: set}}, made, len(batch))
		if err != nil && done > 0 {
			return fmt.Errorf("overrides: the first %d of %d are set: %w", done, len(list), err)
		}
		if err != nil {
			return err
		}
		done += len(batch)
	}
	return nil
}

// DeleteOverrides deletes the overrides of at most 10,000 keys, a thousand at a time, and waits up
// to two seconds until this node has done so. It skips keys without an override. It returns the
// number of deleted overrides; if the leader's answer was lost, those that this node had. Without a
// leader it returns the number of overrides that are certain to be deleted and a NoLeaderError, or an
// UnknownOutcomeError if further ones may have been deleted or may be later.
func (s *Store) DeleteOverrides(ctx context.Context, keys []quota.Key) (deleted int, err error) {
	if len(keys) > MaxOverridesCall {
		return 0, fmt.Errorf("overrides: %d keys in one call; at most %d", len(keys), MaxOverridesCall)
	}
	for batch := range slices.Chunk(keys, overridesBatch) {
		del := &raftlogv1.DeleteOverrides{}
		had := 0
		for _, k := range batch {
			del.Keys = append(del.Keys, limitproto.EncodeKey(k))
			if s.machine.overrides.Load().find(k) != nil {
				had++
			}
		}
		made := func(t *overrideTable) bool {
			return !slices.ContainsFunc(batch, func(k quota.Key) bool { return t.find(k) != nil })
		}
		res, err := s.changeOverrides(ctx, &raftlogv1.MetaCommand{Change: &raftlogv1.MetaCommand_DeleteOverrides{DeleteOverrides: del}}, made, had)
		if err != nil {
			return deleted, err
		}
		deleted += res.count
	}
	return deleted, nil
}

// ListOverrides returns the overrides that this node has applied, sorted by key: at most count and
// at most 10,000, with keys after the given one, of one limit, of one namespace (no limit), or all
// (zero name). total is the number of overrides that match name, regardless of after.
func (s *Store) ListOverrides(name quota.LimitName, after quota.Key, count int) (list []quota.Override, total int) {
	return s.machine.listOverrides(name, after, min(count, MaxOverridesCall))
}

// checkOverrides returns the faults of the first maxFaults faulty overrides.
func (s *Store) checkOverrides(list []quota.Override, now quota.Time) error {
	if len(list) > MaxOverridesCall {
		return fmt.Errorf("overrides: %d in one call; at most %d", len(list), MaxOverridesCall)
	}
	limits, table := s.machine.Current(), s.machine.overrides.Load()
	seen := make(map[quota.Key]bool, len(list))
	var errs []error
	adding := 0
	for i := range list {
		o := &list[i]
		err := errors.Join(limitproto.CheckOverride(o), fitsNow(o, limits, now))
		if seen[o.Key] {
			err = errors.Join(err, errors.New("is a duplicate"))
		}
		seen[o.Key] = true
		if err != nil {
			errs = append(errs, fmt.Errorf("override %v: %w", o.Key, err))
		}
		if len(errs) == maxFaults {
			break
		}
		if table.find(o.Key) == nil {
			adding++
		}
	}
	if len(errs) == 0 && adding > 0 && table.count+adding > s.machine.maxOverrides {
		return &TooManyOverridesError{Have: table.count, Adding: adding}
	}
	return errors.Join(errs...)
}

// fitsNow checks the override against the current limits and the current time.
func fitsNow(o *quota.Override, limits *quota.Limits, now quota.Time) error {
	if o.Expires > 0 && o.Expires <= now {
		return fmt.Errorf("expires: %s has passed", time.Unix(0, int64(o.Expires)).UTC().Format(time.RFC3339))
	}
	l, ok := limits.Find(o.Key.LimitName)
	if !ok {
		return fmt.Errorf("limit: unknown limit %v", o.Key.LimitName)
	}
	return o.Fits(l)
}

// changeOverrides proposes a change. If the answer was lost, made reports whether a table is one after
// the change, and count is the result's.
func (s *Store) changeOverrides(ctx context.Context, cmd *raftlogv1.MetaCommand, made func(*overrideTable) bool, count int) (overridesResult, error) {
	p, err := newProposal(cmd)
	if err != nil {
		return overridesResult{}, err
	}
	p.call = func(command []byte) *peerv1.Call {
		return &peerv1.Call{Body: &peerv1.Call_Overrides{Overrides: &peerv1.CallOverrides{Command: command}}}
	}
	p.result = func(c *peerv1.Call) any { return decodeOverridesResult(c.GetOverridesResult()) }
	p.lost = &lostAnswer{
		nothing:  &raftlogv1.MetaCommand{Change: &raftlogv1.MetaCommand_SetOverrides{SetOverrides: &raftlogv1.SetOverrides{}}},
		revision: func(res any) uint64 { r, _ := res.(overridesResult); return r.revision },
		applied:  func() uint64 { return s.machine.overrides.Load().revision },
		made: func() any {
			if t := s.machine.overrides.Load(); made(t) {
				return overridesResult{count: count, revision: t.revision}
			}
			return nil
		},
	}
	res, err := proposeFor[overridesResult](ctx, s, "overrides", p)
	if err != nil {
		return overridesResult{}, err
	}
	s.waitHere(ctx, func() bool { return s.machine.overrides.Load().revision >= res.revision })
	return res, res.err
}

func encodeOverridesResult(out any) *peerv1.CallOverridesResult {
	res, ok := out.(overridesResult)
	if !ok {
		res.err = fmt.Errorf("overrides: the log answered %v", out)
	}
	r := &peerv1.CallOverridesResult{Count: int64(res.count), Revision: res.revision}
	var many *TooManyOverridesError
	switch {
	case errors.As(res.err, &many):
		r.Have, r.Adding = int64(many.Have), int64(many.Adding)
	case res.err != nil:
		r.Fault = res.err.Error()
	}
	return r
}

func decodeOverridesResult(r *peerv1.CallOverridesResult) overridesResult {
	res := overridesResult{count: int(r.GetCount()), revision: r.GetRevision()}
	switch {
	case r.GetAdding() > 0:
		res.err = &TooManyOverridesError{Have: int(r.GetHave()), Adding: int(r.GetAdding())}
	case r.GetFault() != "":
		res.err = errors.New(r.GetFault())
	}
	return res
}
