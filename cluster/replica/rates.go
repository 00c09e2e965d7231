package replica

import (
	"google.golang.org/protobuf/proto"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/snapshotio"
	"github.com/quorate/quorate/leader"
	"github.com/quorate/quorate/shard"
)

// Rates returns the key rates and the measured errors of the ranges that this node leads.
func (s *Set) Rates(req *peerv1.CallRates) *peerv1.CallRatesResult {
	out := &peerv1.CallRatesResult{}
	q := RateQuery(req)
	out.Limits = s.errors(q.Limits)
	for _, r := range s.replicas {
		if keys, term, ok := r.rates(q); ok {
			out.Ranges = append(out.Ranges, uint32(r.ID))
			for i := range keys {
				out.Keys = append(out.Keys, snapshotio.Encode(r.keyRate(term, &keys[i])))
			}
		}
	}
	return out
}

// ratesAtOnce bounds the keys that are read while the ledger is locked.
const ratesAtOnce = 128

// rates returns the first keys of the ledger in an order. It unlocks the ledger again and again. ok is
// false if this node does not lead the range, or not for long enough.
func (r *Replica) rates(q leader.Query) (keys []quota.KeyRate, term quota.Term, ok bool) {
	var scan *leader.RateScan
	defer func() { scan.Close() }()
	for more := true; more; {
		more = false
		led := r.With(func(l *leader.Ledger, now quota.Time) {
			if scan == nil || term != l.Term() {
				scan.Close()
				scan, term = l.ScanRates(q), l.Term()
			}
			if more = scan.Some(now, ratesAtOnce); !more {
				keys = scan.Take(now)
			}
		})
		if !led {
			return nil, 0, false
		}
	}
	return keys, term, true
}

func (r *Replica) keyRate(term quota.Term, k *quota.KeyRate) *quoratev1.KeyRate {
	return &quoratev1.KeyRate{
		Namespace: k.Key.Namespace, Limit: k.Key.Limit, Key: k.Key.Key,
		Rate: k.Rate, Demand: k.Demand, Attempted: k.Attempted, Admitted: k.Admitted, Refused: k.Refused,
		Remaining: k.Remaining, Range: uint32(r.ID), Leader: string(r.set.cfg.Self), Term: uint64(term),
		Rule: limitProto(k.Limit), Members: int32(k.Members), Utilisation: k.Utilisation,
		OverAdmitted: tokens(k.OverAdmitted), NeedlessRefusals: tokens(k.Needless), NeedlessRefusalsAtMost: tokens(k.NeedlessAtMost),
	}
}

func limitProto(l *quota.Limit) *quoratev1.Limit {
	c := quoratev1.Ceiling_CEILING_SOFT
	if l.Ceiling == quota.Hard {
		c = quoratev1.Ceiling_CEILING_HARD
	}
	out := &quoratev1.Limit{Namespace: l.Namespace, Name: l.LimitName.Limit, Burst: l.Burst, Ceiling: c}
	if l.Rate != (quota.Rate{}) { // a limit on requests in flight has no rate
		out.Rate = l.Rate.String()
	}
	return out
}

// RateQuery converts a peer's request to a ledger query.
func RateQuery(req *peerv1.CallRates) leader.Query {
	q := leader.Query{
		Order: quota.RateOrder(req.Order), Top: int(min(max(req.Top, 1), apiproto.MaxTop)), Prefix: req.KeyPrefix, Label: req.Label,
		Limits: func(l quota.LimitName) bool {
			return (req.Namespace == "" || l.Namespace == req.Namespace) && (req.Limit == "" || l.Limit == req.Limit)
		},
	}
	after := &quoratev1.KeyRate{}
	if len(req.After) > 0 && proto.Unmarshal(req.After, after) == nil {
		k := Ranked(after)
		q.After = &k
	}
	return q
}

// Ranked returns the values by which rates are ordered.
func Ranked(k *quoratev1.KeyRate) quota.KeyRate {
	return quota.KeyRate{
		Key: keyOf(k.Namespace, k.Limit, k.Key), Rate: k.Rate, Demand: k.Demand, Utilisation: k.Utilisation,
		Attempted: k.Attempted, Admitted: k.Admitted, Refused: k.Refused, Remaining: k.Remaining,
		OverAdmitted: quota.Units(k.OverAdmitted * float64(quota.Token)), Needless: quota.Units(k.NeedlessRefusals * float64(quota.Token)),
		NeedlessAtMost: quota.Units(k.NeedlessRefusalsAtMost * float64(quota.Token)),
	}
}

// Counters returns the counters of keys in the ranges that this node leads, and resets them if asked to.
// Counters of ranges led elsewhere stay empty.
func (s *Set) Counters(ask *peerv1.CallKeys) *peerv1.CallKeysResult {
	out := &peerv1.CallKeysResult{Keys: make([][]byte, len(ask.Keys))}
	if ask.Reset_ && len(ask.RequestId) != len(ResetID{}) {
		return out
	}
	for i, c := range ask.Keys {
		k := keyOf(c.Namespace, c.Limit, c.Key)
		r := s.Of(shard.Of(k, s.cfg.Ranges))
		if r == nil {
			continue
		}
		r.With(func(l *leader.Ledger, now quota.Time) {
			if ask.Reset_ && !r.resets.done(ResetID(ask.RequestId)) {
				if ask.Repeated {
					out.Unknown = true
					return
				}
				l.Reset(now, k)
				r.resets.add(ResetID(ask.RequestId))
			}
			if rate, ok := l.Key(now, k); ok {
				out.Keys[i] = snapshotio.Encode(r.keyRate(l.Term(), &rate))
			}
		})
	}
	return out
}

// ResetID identifies one reset of one counter.
type ResetID [16]byte

// recentResets remembers the resets that a leader has carried out, so that repeating one does nothing.
// It ends with the leader's term, because the next leader cannot tell whether the log has the reset.
type recentResets struct {
	seen   map[ResetID]bool
	oldest []ResetID
}

const maxRecentResets = 4096

func (r *recentResets) done(id ResetID) bool { return r.seen[id] }

func (r *recentResets) add(id ResetID) {
	if r.seen == nil {
		r.seen = map[ResetID]bool{}
	}
	if len(r.oldest) == maxRecentResets {
		delete(r.seen, r.oldest[0])
		r.oldest = r.oldest[1:]
	}
	r.seen[id], r.oldest = true, append(r.oldest, id)
}

func keyOf(ns, limit, k string) quota.Key {
	return quota.Key{LimitName: quota.LimitName{Namespace: ns, Limit: limit}, Key: k}
}
