package account

import (
	"fmt"
	"testing"
	"time"
)

// TestOperationsCombinePolicyAccountDelta: operations combine a policy with an account,
// plus a delta.
func TestOperationsCombinePolicyAccountDelta(t *testing.T) {
	w := newWorld(t)
	p := w.load("p", Policy{Default: 5, Limit: 9})
	w.must(op("a", 3, p))
	s := w.get("a")
	check(t, "balance", s.Balance, 8)
	check(t, "policy", *s.Policy, *p)
}

// TestOperationNamesItsAccount: the id of the account to apply to.
func TestOperationNamesItsAccount(t *testing.T) {
	w := newWorld(t)
	p := w.load("p", Policy{Default: 5, Limit: 9})
	w.must(op("a", 0, p), op("b", 0, p))
	w.must(op("b", 2, nil))
	w.balance("a", 5)
	w.balance("b", 7)
}

// TestOperationPolicyIsOptional: the policy to set on the account is optional.
func TestOperationPolicyIsOptional(t *testing.T) {
	w := newWorld(t)
	p := w.load("p", Policy{Default: 5, Limit: 9})
	w.must(op("a", 0, p))
	w.must(op("a", 1, nil))
	s := w.get("a")
	check(t, "balance", s.Balance, 6)
	check(t, "policy", *s.Policy, *p)
}

// TestDeltaIsAnOffset: delta is an offset from what relative_to names.
func TestDeltaIsAnOffset(t *testing.T) {
	w := newWorld(t)
	p := w.load("p", Policy{Default: 5, Limit: 9})
	w.must(op("a", 1, p))
	for _, c := range []struct {
		to          RelativeTo
		delta, want int64
	}{
		{Balance, 2, 8},
		{Balance, -7, 1},
		{Zero, 3, 3},
		{Default, 1, 6},
		{Default, -1, 4},
		{Limit, -9, 0},
		{Limit, 0, 9},
	} {
		check(t, "balance", w.must(op("a", c.delta, nil).to(c.to))[0].New, c.want)
	}
}

// TestRelativeToHasFourValues: CURRENT_BALANCE, ZERO, DEFAULT and LIMIT.
func TestRelativeToHasFourValues(t *testing.T) {
	for r := range RelativeTo(8) {
		o := op("a", 0, nil).to(r)
		check(t, "valid", o.Validate() == nil, r <= Limit)
	}
	w := newWorld(t)
	p := w.load("p", Policy{Limit: 9})
	w.fails(Unknown, op("a", 0, p).to(4))
	o := op("a", 0, nil).to(9)
	check(t, "message", o.Validate().Error(), "relative_to: 9; 0 (CURRENT_BALANCE), 1 (ZERO), 2 (DEFAULT) or 3 (LIMIT)")
}

// TestIgnorePolicyBounds: allows the balance outside of 0 to limit.
func TestIgnorePolicyBounds(t *testing.T) {
	w := newWorld(t)
	p := w.load("p", Policy{Default: 5, Limit: 9})
	check(t, "above", w.must(op("a", 100, p).with(IgnorePolicyBounds))[0].New, 105)
	check(t, "below", w.must(op("a", -107, nil).with(IgnorePolicyBounds))[0].New, -2)
}

// TestApplyingCreates: the account is created if it is missing, with the default of the
// policy.
func TestApplyingCreates(t *testing.T) {
	w := newWorld(t)
	p := w.load("p", Policy{Default: 5, Limit: 9, Refill: Refill{Units: 1, Interval: 1}})
	check(t, "exists", w.get("a").Exists, false)
	w.clock("12:00")
	check(t, "result", w.must(op("a", 1, p))[0], Result{New: 6, Created: true})
	s := w.get("a")
	check(t, "updated", s.Updated, w.now)
	check(t, "policy set", s.PolicySet, w.now)
}

// TestApplyingRefills: the refills since the last update of an existing account are applied, under
// the account's existing policy.
func TestApplyingRefills(t *testing.T) {
	w := newWorld(t)
	p := w.load("p", Policy{Default: 1, Limit: 50, Refill: Refill{Units: 1, Interval: 3600}})
	q := w.load("q", Policy{Limit: 50, Refill: Refill{Units: 10, Interval: 3600}})
	w.must(op("a", 0, p))
	w.clock("02:00")
	check(t, "refilled under the old", w.must(op("a", 0, q))[0], Result{New: 3, Previous: 3, Adjusted: 3})
	w.clock("03:00")
	w.balance("a", 13)
}

// TestApplyingSetsPolicy: if the operation includes a policy, it is set on the account.
func TestApplyingSetsPolicy(t *testing.T) {
	w := newWorld(t)
	p, q := w.load("p", Policy{Default: 1, Limit: 5}), w.load("q", Policy{Default: 2, Limit: 6})
	w.must(op("a", 0, p))
	w.must(op("a", 0, q))
	s := w.get("a")
	check(t, "policy", *s.Policy, *q)
	check(t, "balance stays", s.Balance, 1)
}

// TestApplyingChecksNewPolicy: the new balance is checked against the bounds of the current policy,
// or of the new one.
func TestApplyingChecksNewPolicy(t *testing.T) {
	w := newWorld(t)
	p, q := w.load("p", Policy{Default: 1, Limit: 5}), w.load("q", Policy{Default: 2, Limit: 8})
	w.must(op("a", 0, p))
	w.fails(Overflow, op("a", 6, nil).with(DoNotCapProposed))
	check(t, "within the new", w.must(op("a", 6, q).with(DoNotCapProposed))[0].New, 7)
}

// TestApplyingSaves: the balance, the policy, and a restarted lifetime are saved.
func TestApplyingSaves(t *testing.T) {
	w := newWorld(t)
	p := w.load("p", Policy{Default: 1, Limit: 5, Lifetime: time.Hour})
	w.must(op("a", 2, p))
	w.clock("00:30")
	w.must(op("a", 1, nil))
	s := w.get("a")
	check(t, "balance", s.Balance, 4)
	check(t, "policy", *s.Policy, *p)
	check(t, "expires", s.Expires, w.now.Add(time.Hour))
}

// TestOperationsFailTyped: an operation can fail in these ways, each with its own status, and then
// changes nothing.
func TestOperationsFailTyped(t *testing.T) {
	w := newWorld(t)
	p := w.load("p", Policy{Default: 5, Limit: 9})
	w.must(op("a", 0, p), op("free", 3, nil).to(Zero).with(IgnorePolicyBounds))
	w.fails(Underflow, op("a", -6, nil))
	w.fails(Overflow, op("a", 5, nil).with(DoNotCapProposed))
	w.fails(UnknownPolicy, op("a", 0, testRef("other")))
	w.fails(MissingAccount, op("b", 1, nil))
	w.fails(PolicyRequired, op("free", 1, nil).to(Limit))
	w.fails(Unknown, op("a", 1, nil).with(IgnorePolicyBounds|DoNotCapProposed))
}

// TestFailOutOfBounds: the operation would have brought the account out of 0 to limit,
// without IGNORE_POLICY_BOUNDS.
func TestFailOutOfBounds(t *testing.T) {
	w := newWorld(t)
	p := w.load("p", Policy{Default: 5, Limit: 9})
	w.must(op("a", 0, p))
	w.fails(Underflow, op("a", -6, nil))
	w.fails(Underflow, op("a", -1, nil).to(Zero))
	w.fails(Underflow, op("a", -10, nil).to(Limit))
	w.fails(Underflow, op("new", -6, p))
	w.fails(Overflow, op("a", 5, nil).with(DoNotCapProposed))
	w.fails(Overflow, op("a", 1, nil).to(Limit).with(DoNotCapProposed))
	check(t, "just within", w.must(op("a", 4, nil).with(DoNotCapProposed))[0].New, 9)
	check(t, "just within", w.must(op("a", -9, nil))[0].New, 0)
}

// TestFailUnknownPolicy: the operation included a policy which was not loaded.
func TestFailUnknownPolicy(t *testing.T) {
	w := newWorld(t)
	w.fails(UnknownPolicy, op("a", 1, testRef("p")))
	w.fails(UnknownPolicy, op("a", 1, testRef("p")).to(Zero).with(IgnorePolicyBounds))
}

// TestFailMissingAccount: the account is missing, and the operation set no policy from which to
// create it.
func TestFailMissingAccount(t *testing.T) {
	w := newWorld(t)
	w.fails(MissingAccount, op("a", 1, nil))
	w.fails(MissingAccount, op("a", 1, nil).to(Default))
	w.fails(MissingAccount, op("a", 1, nil).to(Limit).with(IgnorePolicyBounds))
	// Relative to ZERO, the error is the missing policy, not the missing account.
	w.fails(PolicyRequired, op("a", 1, nil).to(Zero))
	check(t, "without a policy", w.must(op("a", 1, nil).to(Zero).with(IgnorePolicyBounds))[0], Result{New: 1, Created: true})
}

// TestTowardsBoundsIsAllowed: accounts that are out of bounds may be brought closer.
func TestTowardsBoundsIsAllowed(t *testing.T) {
	w := newWorld(t)
	p := w.load("p", Policy{Limit: 10})
	w.must(op("a", -10, p).to(Zero).with(IgnorePolicyBounds))
	w.fails(Underflow, op("a", -1, nil))
	check(t, "up", w.must(op("a", 4, nil))[0].New, -6)
	w.must(op("a", 25, nil).to(Zero).with(IgnorePolicyBounds))
	w.fails(Overflow, op("a", 1, nil).with(DoNotCapProposed))
	check(t, "down", w.must(op("a", -5, nil).with(DoNotCapProposed))[0].New, 20)
	// Without DO_NOT_CAP_PROPOSED the proposed balance is capped, also for a debit.
	check(t, "down to the limit", w.must(op("a", -5, nil))[0].New, 10)
}

// TestMinusTenPlusOne: the balance is -10, and a delta of +1 is allowed.
func TestMinusTenPlusOne(t *testing.T) {
	w := newWorld(t)
	w.must(op("a", -10, w.load("p", Policy{Limit: 10})).to(Zero).with(IgnorePolicyBounds))
	check(t, "balance", w.must(op("a", 1, nil))[0].New, -9)
}

// TestNineteenMinusTen: the balance is 19 with a limit of 10, and a delta of -10 is allowed.
func TestNineteenMinusTen(t *testing.T) {
	w := newWorld(t)
	w.must(op("a", 19, w.load("p", Policy{Limit: 10})).to(Zero).with(IgnorePolicyBounds))
	check(t, "balance", w.must(op("a", -10, nil))[0].New, 9)
}

// TestNineteenPlusOne checks that a credit neither raises nor lowers a balance of 19 with a limit of 10.
// A debit leaves at most the limit, unless the cap is off.
func TestNineteenPlusOne(t *testing.T) {
	for _, tc := range []struct {
		delta   int64
		options OpOptions
		want    int64
		status  Status
	}{
		{1, 0, 19, Success},
		{100, 0, 19, Success},
		{1, DoNotCapProposed, 19, Overflow},
		{1, IgnorePolicyBounds, 20, Success},
		{0, 0, 19, Success},
		{0, DoNotCapProposed, 19, Success},
		{-3, 0, 10, Success},
		{-3, DoNotCapProposed, 16, Success},
		{-10, 0, 9, Success},
	} {
		w := newWorld(t)
		w.must(op("a", 19, w.load("p", Policy{Limit: 10})).to(Zero).with(IgnorePolicyBounds))
		out := w.do(op("a", tc.delta, nil).with(tc.options))
		check(t, fmt.Sprintf("status of %+d with options %d", tc.delta, tc.options), out.Results[0].Status, tc.status)
		w.balance("a", tc.want)
	}
}

// TestGetProjects: get returns the full account, and the value after refills.
func TestGetProjects(t *testing.T) {
	w := newWorld(t)
	rule := Policy{Default: 1, Limit: 9, Refill: Refill{Units: 2, Interval: 3600}, Lifetime: 24 * time.Hour}
	p := w.load("p", rule)
	w.must(op("a", 0, p))
	w.clock("02:10")
	s := w.store.View().Get(w.now, testID("a"))
	check(t, "balance", s.Balance, 1)
	check(t, "projected", s.Projected, 5)
	check(t, "updated", s.Updated, midnight)
	check(t, "policy", *s.Policy, *p)
	check(t, "rule", *s.Rule, rule)
	check(t, "next refill", s.Next, midnight.Add(3*time.Hour))
	check(t, "expires", s.Expires, midnight.Add(24*time.Hour))
}

// TestGetChangesNothing: get does not change the account at all.
func TestGetChangesNothing(t *testing.T) {
	w := newWorld(t)
	w.must(op("a", 0, w.load("p", Policy{Default: 1, Limit: 9, Refill: Refill{Units: 2, Interval: 3600}, Lifetime: time.Hour * 24})))
	before := w.bytes()
	w.clock("12:00")
	w.balance("a", 9)
	w.balance("a", 9)
	w.store.View().List(w.now, Filter{App: "cv", Realm: "chromium:try"}, ID{}, 10)
	check(t, "the same store", string(w.bytes()), string(before))
	w.pass(12 * time.Hour)
	check(t, "its lifetime was not refreshed", w.get("a").Exists, false)
}

// TestRefillMimicsCron: refills behave like a cron job that runs every second.
func TestRefillMimicsCron(t *testing.T) {
	w := newWorld(t)
	p := w.load("p", Policy{Limit: 1000, Refill: Refill{Units: 3, Interval: 20, Offset: 7}})
	w.must(op("a", 0, p))
	var cron int64
	for sec := 1; sec <= 120; sec++ {
		w.pass(time.Second)
		if sec%20 == 7 {
			cron += 3
		}
		w.balance("a", cron)
		if sec%11 == 0 { // with and without use in between
			w.must(op("a", 0, nil))
		}
	}
	check(t, "after two minutes", cron, 18)
}

// TestRefillTakesNoTimeForIdleTime: nothing runs in between, so a refill over 200 years takes the
// same time as over a second.
func TestRefillTakesNoTimeForIdleTime(t *testing.T) {
	p := Policy{Limit: Most, Refill: Refill{Units: 1, Interval: 1}}
	const years = 200 * 365 * 24 * time.Hour
	check(t, "200 years of seconds", p.refill(0, 0, midnight.Add(0)), int64(midnight)/second)
	check(t, "more", p.refill(0, midnight, midnight.Add(years)), int64(years/time.Second))
}

// TestRefillUnderPreviousPolicy: each account remembers policy details, and a refill covers the
// elapsed time under the previous policy.
func TestRefillUnderPreviousPolicy(t *testing.T) {
	w := newWorld(t)
	p := w.load("p", Policy{Limit: 100, Refill: Refill{Units: 1, Interval: 60}})
	q := w.load("q", Policy{Limit: 100, Refill: Refill{Units: 100, Interval: 60}})
	w.must(op("a", 0, p))
	w.clock("00:10")
	w.purge(p)
	check(t, "ten minutes of the old", w.must(op("a", 0, q))[0].Previous, 10)
}

// TestRefillIsSynchronisedToUTC: refills are synchronised to UTC plus an offset.
func TestRefillIsSynchronisedToUTC(t *testing.T) {
	w := newWorld(t)
	w.clock("05:59:59")
	p := w.load("p", Policy{Limit: 100, Refill: Refill{Units: 1, Interval: 21600}})
	q := w.load("q", Policy{Limit: 100, Refill: Refill{Units: 1, Interval: 21600, Offset: 60}})
	w.must(op("a", 0, p), op("b", 0, q))
	w.clock("06:00")
	w.balance("a", 1)
	w.balance("b", 0)
	w.clock("06:01")
	w.balance("b", 1)
}

// TestSeventeenEverySixHours: 17 units and an interval of 21600 add 17 units every six hours from
// UTC midnight.
func TestSeventeenEverySixHours(t *testing.T) {
	w := newWorld(t)
	w.must(op("a", 0, w.load("p", Policy{Limit: 1000, Refill: Refill{Units: 17, Interval: 21600}})))
	for i := range int64(12) {
		w.pass(6*time.Hour - 1)
		w.balance("a", 17*i)
		w.pass(1)
		w.balance("a", 17*(i+1))
	}
}

// TestCreatedAt0740: an account created at 07:40 is refilled at 12:00.
func TestCreatedAt0740(t *testing.T) {
	w := newWorld(t)
	w.clock("07:40")
	w.must(op("a", 0, w.load("p", Policy{Limit: 1000, Refill: Refill{Units: 17, Interval: 21600}})))
	check(t, "next", w.get("a").Next, midnight.Add(12*time.Hour))
	w.clock("11:59:59")
	w.balance("a", 0)
	w.clock("12:00")
	w.balance("a", 17)
}

// TestOffsetRotates: the offset rotates the cycle, so that a policy's "midnight" is at a
// different time of the day.
func TestOffsetRotates(t *testing.T) {
	w := newWorld(t)
	w.must(op("a", 0, w.load("p", Policy{Limit: 1000, Refill: Refill{Units: 10, Interval: 86400, Offset: 8 * 3600}})))
	w.clock("07:59:59")
	w.balance("a", 0)
	w.clock("08:00")
	w.balance("a", 10)
	w.pass(24*time.Hour - 1)
	w.balance("a", 10)
	w.pass(1)
	w.balance("a", 20)
}

// TestUnitsAreAdded: each refill adds its units; negative units reduce the balance, down to 0.
func TestUnitsAreAdded(t *testing.T) {
	w := newWorld(t)
	w.must(op("a", 0, w.load("p", Policy{Default: 1, Limit: 10, Refill: Refill{Units: 4, Interval: 60}})),
		op("b", 0, w.load("q", Policy{Default: 9, Limit: 10, Refill: Refill{Units: -4, Interval: 60}})))
	for _, want := range [][2]int64{{1, 9}, {5, 5}, {9, 1}, {10, 0}, {10, 0}} {
		w.balance("a", want[0])
		w.balance("b", want[1])
		w.pass(time.Minute)
	}
}

// TestIntervalDividesTheDay: the interval must evenly divide 24 hours.
func TestIntervalDividesTheDay(t *testing.T) {
	for interval, ok := range map[uint32]bool{1: true, 60: true, 72: true, 21600: true, 86400: true, 71: false, 7: false, 86401: false, 172800: false, 13 * 3600: false} {
		r := Refill{Units: 1, Interval: interval}
		check(t, "valid", r.Validate() == nil, ok)
	}
	err := Refill{Units: 1, Interval: 71}.Validate()
	check(t, "message", err.Error(), "interval: 71 does not divide a day; such as 1, 60, 3600, 21600 or 86400 seconds")
}

// TestIntervalsCountFromMidnight: intervals are synchronised to UTC midnight plus the offset,
// whenever the account was made.
func TestIntervalsCountFromMidnight(t *testing.T) {
	w := newWorld(t)
	p := w.load("p", Policy{Limit: 100, Refill: Refill{Units: 1, Interval: 3600, Offset: 600}})
	w.clock("00:09:59")
	w.must(op("a", 0, p))
	w.clock("00:10:01")
	w.must(op("b", 0, p))
	w.balance("a", 1)
	w.balance("b", 0)
	w.clock("01:10")
	w.balance("a", 2)
	w.balance("b", 1)
}

// TestNoStampede: refills at one moment are computed at the next use, and no command is needed at
// that moment.
func TestNoStampede(t *testing.T) {
	w := newWorld(t)
	p := w.load("p", Policy{Limit: 100, Refill: Refill{Units: 1, Interval: 60}})
	for _, name := range []string{"a", "b", "c"} {
		w.must(op(name, 0, p))
	}
	before := w.bytes()
	w.pass(time.Hour)
	for _, name := range []string{"a", "b", "c"} {
		w.balance(name, 60)
	}
	check(t, "nothing is written", string(w.bytes()), string(before))
}

// TestOffsetIsSecondsAfterMidnight: the offset is the seconds from UTC midnight to the
// first interval of the day.
func TestOffsetIsSecondsAfterMidnight(t *testing.T) {
	w := newWorld(t)
	w.must(op("a", 0, w.load("p", Policy{Limit: 100, Refill: Refill{Units: 1, Interval: 86400, Offset: 1}})))
	w.balance("a", 0)
	w.clock("00:00:01")
	w.balance("a", 1)
	for offset, ok := range map[uint32]bool{0: true, 86399: true, 86400: true, 86401: false} {
		check(t, "valid", Refill{Units: 1, Interval: 60, Offset: offset}.Validate() == nil, ok)
	}
}

// TestManyPolicies: a single account goes through many policies, and their parameters.
func TestManyPolicies(t *testing.T) {
	w := newWorld(t)
	for i := range int64(20) {
		p := w.load(string(rune('a'+i)), Policy{Default: 5, Limit: 10 + i, Refill: Refill{Units: 1, Interval: 3600}})
		w.must(op("a", 0, p))
		check(t, "limit", w.get("a").Rule.Limit, 10+i)
		w.balance("a", 5+i)
		w.pass(time.Hour)
	}
	check(t, "accounts", w.store.Stats().Accounts, 1)
	check(t, "policies that are kept", len(w.store.policies), 1)
}

// TestAccountNamesAreStable: a policy is not part of the account's name.
func TestAccountNamesAreStable(t *testing.T) {
	w := newWorld(t)
	p := w.load("p", Policy{Default: 5, Limit: 9})
	w.must(op("a", -1, p))
	w.must(op("a", -1, w.load("q", Policy{Default: 7, Limit: 9})))
	w.balance("a", 3)
	check(t, "placement", testID("a").Placement(), "cv~chromium:try~user:a~bucket|linux~a~builds")
}

// TestSwitchKeepsBalance: when policies shift, the balance is kept, except that an
// account over its limit is not refilled.
func TestSwitchKeepsBalance(t *testing.T) {
	w := newWorld(t)
	p := w.load("p", Policy{Default: 20, Limit: 20, Refill: Refill{Units: 1, Interval: 60}})
	q := w.load("q", Policy{Limit: 10, Refill: Refill{Units: 1, Interval: 60}})
	r := w.load("r", Policy{Limit: 30, Refill: Refill{Units: 1, Interval: 60}})
	w.must(op("a", 0, p))
	check(t, "to a lower limit", w.must(op("a", 0, q))[0].New, 20)
	w.clock("01:00")
	check(t, "not refilled", w.must(op("a", 0, r))[0].New, 20)
	w.clock("01:03")
	w.balance("a", 23)
}

// TestSwitchMayAlwaysImprove: however far out of bounds, an over-limit account may shrink, and an
// under-zero account may grow.
func TestSwitchMayAlwaysImprove(t *testing.T) {
	w := newWorld(t)
	p := w.load("p", Policy{Limit: 1})
	for _, far := range []int64{2, 1000, MostDelta} {
		w.must(op("a", far, p).to(Zero).with(IgnorePolicyBounds), op("b", -far, p).to(Zero).with(IgnorePolicyBounds))
		check(t, "smaller", w.must(op("a", -1, nil).with(DoNotCapProposed))[0].New, far-1)
		check(t, "larger", w.must(op("b", 1, nil))[0].New, -far+1)
	}
}

// TestTwentyEighteenFifteen: a limit of 20, a balance of 18, and a switch to a limit of
// 15: the balance stays 18 until debited, and positive refill has no effect.
func TestTwentyEighteenFifteen(t *testing.T) {
	w := newWorld(t)
	w.must(op("a", 18, w.load("p", Policy{Limit: 20})))
	w.must(op("a", 0, w.load("q", Policy{Limit: 15, Refill: Refill{Units: 5, Interval: 60}})))
	w.balance("a", 18)
	w.clock("10:00")
	w.balance("a", 18)
	check(t, "no refill to come", w.get("a").Next, 0)
	w.must(op("a", 0, nil))
	w.balance("a", 18)
	check(t, "debited", w.must(op("a", -4, nil))[0].New, 14)
	w.pass(time.Minute)
	w.balance("a", 15)
}
