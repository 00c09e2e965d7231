package aggregator

import (
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// absence is the time since which no leader of a range answers; 0 means that one does. The member's goroutine sets
// it, and refusals read it; admissions never do.
type absence struct{ since atomic.Int64 }

func (s *absence) begin(at quota.Time) { s.since.CompareAndSwap(0, int64(at)) }

func (s *absence) end() { s.since.Store(0) }

func (s *absence) from() quota.Time { return quota.Time(s.since.Load()) }

// LeaderLost notes that no leader of a range is known. Refusals have the reason failover until a leader has answered.
// Any goroutine may call it.
func (a *Aggregator) LeaderLost(now quota.Time, r quota.RangeID) {
	a.ranges[r].absent.begin(now)
}

// metRanges counts the ranges of which a leader has answered a full report of this process.
type metRanges struct{ atomic.Int32 }

// MetLeaders reports whether a leader of every range has answered a full report of this process. Until then, leaders may
// have announced used-up keys that this member does not know of. Any goroutine may call it.
func (a *Aggregator) MetLeaders() bool { return int(a.met.Load()) == len(a.ranges) }

// noteSilentLeaders notes which leaders do not answer.
func (a *Aggregator) noteSilentLeaders(now quota.Time) {
	for r := range a.ranges {
		rt := &a.ranges[r]
		if rt.asked != 0 && now.Sub(rt.asked) > a.retryAfter()+4*rt.trip() {
			rt.absent.begin(rt.asked)
		}
	}
}

// setAside reports whether the cost would pass with the tokens that the leader has set aside.
func (b *bucket) setAside(est, cost quota.Units) bool {
	return b.aside > 0 && est.Plus(b.aside) >= cost
}

// notHeld refuses a cost that is left in the cluster but not held here. The reason is failover if no leader answers,
// or if the leader has set tokens aside.
func (a *Aggregator) notHeld(now quota.Time, b *bucket, l *quota.Limit, est, cost quota.Units) quota.Decision {
	if b.aside > 0 || a.ranges[b.rng].absent.from() != 0 {
		return a.inFailover(now, b, l, est, cost)
	}
	return b.decided(now, l, quota.WhyNotHeld, false, est, cost)
}

// inFailover refuses between two leaders. If est is below the cost, Remaining includes the tokens set aside for
// others: only the rest is known to be used.
func (a *Aggregator) inFailover(now quota.Time, b *bucket, l *quota.Limit, est, cost quota.Units) quota.Decision {
	d := b.decided(now, l, quota.WhyFailover, false, est, cost)
	if since := a.ranges[b.rng].absent.from(); since != 0 {
		d.RetryAfter = a.leaderRetryAfter(now.Sub(since))
	} else {
		d.RetryAfter = min(max(d.RetryAfter, a.cfg.Sync), a.cfg.Lease)
	}
	if est < cost {
		d.Remaining = min(max(0, est.Plus(b.aside).Tokens()), l.Burst)
	}
	return d
}

// leaderRetryAfter returns the retry-after when no leader has answered for the time gone. An election takes about
// electionTime; one that has taken longer is expected to take as long again.
func (a *Aggregator) leaderRetryAfter(gone time.Duration) time.Duration {
	return min(max(electionTime-gone, gone, a.cfg.Sync), max(a.cfg.Lease, a.cfg.Sync))
}

// electionTime is the typical time without a leader after one has died.
const electionTime = time.Second

// leaderless returns how long no leader has answered about the key.
func (a *Aggregator) leaderless(now quota.Time, b *bucket) time.Duration {
	since := a.ranges[b.rng].absent.from()
	if b.cutOff(now, a.cfg.Lease) {
		return max(now.Sub(max(since, b.changed)), a.cfg.Lease)
	}
	if since == 0 { // the leader could not be asked just now
		return 0
	}
	return now.Sub(since)
}
