package leader

import (
	"errors"
	"fmt"

	"github.com/quorate/quorate/internal/quota"
)

// Check proves the books of these keys at a moment, or of all keys if keys is
// empty, and returns a fault, always the same one of several:
//
//   - pool + standing + in flight <= burst, and under soft what members have
//     probably used unseen: no token is there twice;
//   - of every member 0 <= standing <= out, rate <= charged, cap <= capped, and at
//     most maxFlight grants are unanswered;
//   - every account is listed for what upkeep has to do about it;
//   - with rates, the charged ones sum up to at most the limit's. Not under soft
//     after the first term: a member that was cut off for longer than a new leader
//     waits brings a rate along that others have received since.
//
// Standing is the most that members may hold by what the leader knows. It may
// exceed the burst by what lost and late messages leave open; the pool is below 0
// by as much then. What they do hold only a simulator can add up.
//
// It is for tests and the simulator, after a step at the same moment: it changes
// nothing that the step has not. It takes time in proportion to the members of
// the keys.
func (l *Ledger) Check(now quota.Time, keys ...quota.Key) error {
	for _, k := range keys {
		if a := l.account(k); a != nil {
			if err := l.check(now, a); err != nil {
				return fmt.Errorf("%v: %w", k, err)
			}
		}
	}
	if len(keys) > 0 {
		return nil
	}
	var first error
	var at quota.Key
	for k, a := range l.accounts {
		if l.current(a) == nil {
			continue
		}
		if err := l.check(now, a); err != nil && (first == nil || k.Compare(at) < 0) {
			first, at = fmt.Errorf("%v: %w", k, err), k
		}
	}
	return first
}

// check is Check of one account. It also holds that upkeep will see to it: see schedule.go.
func (l *Ledger) check(now quota.Time, a *account) error {
	if err := a.check(now, l.term > 1); err != nil {
		return err
	}
	next, at := l.nextAlarm(now, a), never
	if a.timer > 0 {
		at = l.timers[a.timer-1].at
	}
	switch {
	case a.dirty && !a.queued && !a.wanted && a.tier.Kind != quota.Concurrency:
		return errors.New("it has moved, and is not listed for the next checkpoint")
	case next != never && at > next.Add(linger):
		return fmt.Errorf("it must be visited at %d, and will be at %d", next, at)
	}
	return nil
}

func (a *account) check(now quota.Time, later bool) error {
	a.advance(now)
	var standing, charged, inFlight quota.Units
	for i := range a.holders {
		h := &a.holders[i]
		if err := h.check(); err != nil {
			return fmt.Errorf("member %s: %w", h.node, err)
		}
		standing, inFlight = standing.Plus(h.standing()), inFlight.Plus(h.inFlight)
		if !h.restored { // what the log promises at most is more than what is granted
			charged = charged.Plus(h.charged)
		}
	}
	burst := a.limit.BurstUnits()
	if a.tier.Kind != quota.Concurrency {
		inFlight = 0
	}
	switch {
	case a.pool.Level().Plus(standing).Plus(inFlight).Plus(-a.unseen(now, nil, a.level())) > burst:
		return fmt.Errorf("pool %d + standing %d + in flight %d exceed the burst of %d", a.pool.Level(), standing, inFlight, burst)
	case a.rates() && (!later || a.limit.Ceiling == quota.Hard) && charged > a.limit.Rate.PerSecond():
		return fmt.Errorf("charged rates of %d exceed the limit's %d", charged, a.limit.Rate.PerSecond())
	}
	return nil
}

func (h *holder) check() error {
	switch s := h.standing(); {
	case s < 0 || s > h.out:
		return fmt.Errorf("standing %d of %d out", s, h.out)
	case h.rate > h.charged:
		return fmt.Errorf("rate %d exceeds the charged %d", h.rate, h.charged)
	case h.cap > h.capped:
		return fmt.Errorf("cap %d exceeds the charged %d", h.cap, h.capped)
	case len(h.flight) > maxFlight:
		return fmt.Errorf("%d grants are unanswered, at most %d may be", len(h.flight), maxFlight)
	}
	return nil
}
