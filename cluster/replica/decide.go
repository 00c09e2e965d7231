package replica

import (
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
)

// MaxDecide bounds the decide requests in one message.
const MaxDecide = 512

// onDecide answers the decide requests of another node, if this node leads the range.
func (s *Set) onDecide(from quota.NodeID, msg *peerv1.CallAsk) *peerv1.CallAskResult {
	out := &peerv1.CallAskResult{}
	r := s.Of(quota.RangeID(msg.Range))
	if r == nil || len(msg.Asks) > MaxDecide {
		return out
	}
	asks := make([]quota.Ask, len(msg.Asks))
	for i, a := range msg.Asks {
		asks[i] = peerproto.DecodeAsk(a)
		asks[i].From, asks[i].Incarnation = from, quota.Incarnation(msg.Incarnation)
	}
	answers := make([]*peerv1.AskAnswer, len(asks))
	if r.Decide(asks, func(i int, a quota.Answer) { answers[i] = peerproto.EncodeAnswer(a) }) {
		out.Answers = answers
	}
	return out
}

// TryDecide decides a request in the ledger if it can do so without waiting, for the ledger's lock or for the log.
// Otherwise, and if this node does not lead the range, it returns false, and has booked nothing.
func (r *Replica) TryDecide(ask *quota.Ask) (quota.Answer, bool) {
	if !r.mu.TryLock() {
		return quota.Answer{}, false
	}
	defer r.mu.Unlock()
	if r.ledger == nil {
		return quota.Answer{}, false
	}
	a := r.ledger.AskOne(r.set.cfg.Now(), ask)
	return a, !a.Unsaved
}

// Decide decides requests in the ledger, in order, and calls answer with each answer. It returns false, without any
// answer, if this node does not lead the range. A request that must be in the log first is answered once it is, or with
// Unsaved after three quarters of the time that callers wait; the others are answered before that.
func (r *Replica) Decide(asks []quota.Ask, answer func(i int, a quota.Answer)) (leads bool) {
	out, open := make([]quota.Answer, len(asks)), make([]int, len(asks))
	for i := range asks {
		open[i] = i
	}
	timer := time.NewTimer(r.set.cfg.AskWait * 3 / 4)
	defer timer.Stop()
	for waits := true; waits && len(open) > 0; {
		var committed chan struct{}
		var decided, unsaved []int
		leads = r.With(func(l *leader.Ledger, now quota.Time) {
			again := make([]quota.Ask, len(open))
			for i, at := range open {
				again[i] = asks[at]
			}
			for i, a := range l.Ask(now, again) {
				if out[open[i]] = a; a.Unsaved {
					unsaved = append(unsaved, open[i])
				} else {
					decided = append(decided, open[i])
				}
			}
			if len(unsaved) > 0 && r.committed == nil {
				r.committed = make(chan struct{})
			}
			committed = r.committed
		})
		if !leads {
			leads = len(open) < len(asks) // it did, and has answered some
			break
		}
		for _, i := range decided {
			answer(i, out[i])
		}
		if open = unsaved; len(open) == 0 {
			break
		}
		r.requestCheckpoint()
		select {
		case <-committed:
		case <-timer.C:
			waits = false
		case <-r.set.ctx.Done():
			waits = false
		}
	}
	if leads {
		for _, i := range open {
			answer(i, out[i])
		}
	}
	return leads
}
