package aggregator

import (
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// absence is since when no leader of a range answers; 0 says that one does. The member's goroutine
// notes it, and any that refuses reads it: nobody who admits does.
type absence struct{ since atomic.Int64 }

func (s *absence) begin(at quota.Time) { s.since.CompareAndSwap(0, int64(at)) }

func (s *absence) end() { s.since.Store(0) }

func (s *absence) from() quota.Time { return quota.Time(s.since.Load()) }

// LeaderLost notes that no leader of a range is known now. Refusals say so until a leader has
// answered. Any goroutine may call it.
func (a *Aggregator) LeaderLost(now quota.Time, r quota.RangeID) {
	a.ranges[r].absent.begin(now)
}

// notice notes which leaders do not answer.
func (a *Aggregator) notice(now quota.Time) {
	for r := range a.ranges {
		rt := &a.ranges[r]
		if rt.asked != 0 && now.Sub(rt.asked) > a.retryAfter()+4*rt.rtt {
			rt.absent.begin(rt.asked)
		}
	}
}

// setAside reports whether the cost is refused only for what the leader has set aside.
func (b *bucket) setAside(est, cost quota.Units) bool {
	return b.aside > 0 && est.Plus(b.aside) >= cost
}

// notHeld refuses what is left in the cluster and not held here. Where nobody can grant more now,
// or not all that is left, it says so.
func (a *Aggregator) notHeld(now quota.Time, b *bucket, l *quota.Limit, est, cost quota.Units) quota.Decision {
	if b.aside > 0 || a.ranges[b.rng].absent.from() != 0 {
		return a.inFailover(now, b, l, est, cost)
	}
	return b.decided(now, l, quota.WhyNotHeld, false, est, cost)
}

// inFailover refuses between two leaders. What is left counts as known to be used, together with
// what is set aside for others.
func (a *Aggregator) inFailover(now quota.Time, b *bucket, l *quota.Limit, est, cost quota.Units) quota.Decision {
	d := b.decided(now, l, quota.WhyFailover, false, est, cost)
	if since := a.ranges[b.rng].absent.from(); since != 0 {
		d.RetryAfter = a.comeback(now.Sub(since))
	} else {
		d.RetryAfter = min(max(d.RetryAfter, a.cfg.Sync), a.cfg.Lease)
	}
	if est < cost {
		d.Remaining = min(max(0, est.Plus(b.aside).Tokens()), l.Burst)
	}
	return d
}

// comeback is when to ask again while no leader has answered for so long. An election takes about
// electionTime; one that has taken longer takes, for all that is known, as long again.
func (a *Aggregator) comeback(gone time.Duration) time.Duration {
	return min(max(electionTime-gone, gone, a.cfg.Sync), max(a.cfg.Lease, a.cfg.Sync))
}

// electionTime is how long a range is without a leader that answers, when one has died.
const electionTime = time.Second

// leaderless is for how long no leader has answered about the key.
func (a *Aggregator) leaderless(now quota.Time, b *bucket) time.Duration {
	since := a.ranges[b.rng].absent.from()
	if b.cutOff(now, a.cfg.Lease) {
		return max(now.Sub(max(since, b.opened)), a.cfg.Lease)
	}
	if since == 0 { // it could not be asked just now
		return 0
	}
	return now.Sub(since)
}
