package leader

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// Check verifies the invariants of these keys, or of all keys if keys is empty. Of several faults
// it returns always the same one. The invariants are:
//
//   - pool + standing + in flight <= burst; under soft, unseen is subtracted on the left: no
//     token exists twice;
//   - for every allocation 0 <= standing <= out, rate <= charged, cap <= capped, and at most
//     maxUnacked grants are unacknowledged;
//   - every bucket is listed for the upkeep that it needs;
//   - with rates, the charged ones sum up to at most the limit's. Not under soft after the first
//     term: a member that was cut off for longer than a new leader waits returns with a rate that
//     other members have received since. Not for a lease after a change of the limit either: a higher
//     rate that was cut stays charged until its member acknowledges.
//
// Standing is the most that members may hold by what the leader knows. It may exceed the burst by
// as much as lost and late messages leave open; the pool is below 0 by the same amount then. Only a
// simulator can add up what members really hold.
//
// It is for tests and the simulator, after a step at the same moment: it changes nothing that the
// step has not. It takes time in proportion to the members of the keys.
func (l *Ledger) Check(now quota.Time, keys ...quota.Key) error {
	for _, k := range keys {
		if b := l.bucket(k); b != nil {
			if err := l.check(now, b); err != nil {
				return fmt.Errorf("%v: %w", k, err)
			}
		}
	}
	if len(keys) > 0 {
		return nil
	}
	var first error
	var at quota.Key
	for b := range l.buckets.all() {
		wasPacked := b.isPacked()
		if l.current(b) == nil {
			continue
		}
		err := l.check(now, b)
		if l.repackBucket(b, wasPacked); err != nil && (first == nil || b.key().Compare(at) < 0) {
			at = b.key()
			first = fmt.Errorf("%v: %w", at, err)
		}
	}
	return first
}

// check verifies one bucket, and that upkeep will visit it in time: see schedule.go.
func (l *Ledger) check(now quota.Time, b *bucket) error {
	if err := b.check(now, l.term > 1, l.cfg.Lease); err != nil {
		return err
	}
	next, at := l.nextAlarm(now, b), never
	if b.timer > 0 {
		at = l.timers[b.timer-1].at
	}
	switch {
	case b.dirty && !b.queued && !b.wanted && b.tier.Kind != quota.Concurrency:
		return errors.New("it has moved, and is not listed for the next checkpoint")
	case next != never && at > next.Add(linger):
		return fmt.Errorf("it must be visited at %d, and will be at %d", next, at)
	}
	return nil
}

// check verifies the invariants of the state. later is set if the range had a leader before this one.
func (b *bucket) check(now quota.Time, later bool, lease time.Duration) error {
	b.advance(now)
	var standing, charged, inFlight quota.Units
	for i := range b.allocations {
		al := &b.allocations[i]
		if err := al.check(); err != nil {
			return fmt.Errorf("member %s: %w", al.node, err)
		}
		standing, inFlight = standing.Plus(al.standing()), inFlight.Plus(al.rarely().inFlight)
		if !al.restored { // a promise of the log may exceed the granted rate
			charged = charged.Plus(al.charged)
		}
	}
	burst := b.limit.BurstUnits()
	if b.tier.Kind != quota.Concurrency {
		inFlight = 0
	}
	switch {
	case b.pool.Level().Plus(standing).Plus(inFlight).Plus(-b.unseen(now, nil, b.level())) > burst:
		return fmt.Errorf("pool %d + standing %d + in flight %d exceed the burst of %d", b.pool.Level(), standing, inFlight, burst)
	case b.mayHaveRates() && (b.fresh == 0 || now.Sub(b.fresh) > lease+leaseSlack) && (!later || b.limit.Ceiling == quota.Hard) && charged > b.limit.Rate.PerSecond():
		return fmt.Errorf("charged rates of %d exceed the limit's %d", charged, b.limit.Rate.PerSecond())
	}
	return nil
}

func (al *allocation) check() error {
	switch s := al.standing(); {
	case s < 0 || s > al.out:
		return fmt.Errorf("standing %d of %d out", s, al.out)
	case al.rate > al.charged:
		return fmt.Errorf("rate %d exceeds the charged %d", al.rate, al.charged)
	case al.cap > al.capped:
		return fmt.Errorf("cap %d exceeds the charged %d", al.cap, al.capped)
	case al.unacked != nil && len(al.unacked.Grants) > quota.MaxUnacked:
		return fmt.Errorf("%d grants are unanswered, at most %d may be", len(al.unacked.Grants), quota.MaxUnacked)
	}
	return nil
}
