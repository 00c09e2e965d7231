package account

import (
	"testing"
	"time"
)

// again makes a request and returns its outcome.
func (w *world) again(by, id string, ops ...Op) Outcome {
	w.t.Helper()
	return w.apply(w.store, Command{Apply: w.request(by, id, ops...)})
}

// TestNotAppliedTwice: an operation of -10 that is sent twice is applied once.
func TestNotAppliedTwice(t *testing.T) {
	w := newWorld(t)
	p := w.load("p", Policy{Default: 50, Limit: 50})
	for range 5 {
		w.again("user:me", "r1", op("a", -10, p))
		w.pass(time.Minute)
	}
	w.balance("a", 40)
}

// TestRequestsHaveIDs: the caller provides the id of its request; ids are separate per caller.
func TestRequestsHaveIDs(t *testing.T) {
	w := newWorld(t)
	p := w.load("p", Policy{Default: 50, Limit: 50})
	check(t, "mine", w.again("user:me", "r1", op("a", -10, p)).Code, Done)
	check(t, "yours", w.again("user:you", "r1", op("a", -10, p)).Code, Done)
	check(t, "mine again", w.again("user:me", "r1", op("a", -10, p)).Code, Repeated)
	w.balance("a", 30)
	for range 2 { // the store does not remember an empty id
		check(t, "without", w.again("user:me", "", op("a", -10, p)).Code, Done)
	}
	w.balance("a", 10)
}

// TestAllOrNothing: if all operations can proceed, all are applied; else none.
func TestAllOrNothing(t *testing.T) {
	w := newWorld(t)
	p := w.load("p", Policy{Default: 5, Limit: 9})
	w.must(op("a", 0, p), op("b", 0, p))
	before := w.bytes()
	out := w.do(op("a", -1, nil), op("b", -6, nil), op("a", -2, nil))
	check(t, "code", out.Code, Failed)
	check(t, "first", out.Results[0], Result{New: 4, Previous: 5, Adjusted: 5})
	check(t, "second", out.Results[1].Status, Underflow)
	check(t, "third sees the first", out.Results[2], Result{New: 2, Previous: 4, Adjusted: 4})
	check(t, "the same store", string(w.bytes()), string(before))
	w.must(op("a", -1, nil), op("b", -5, nil), op("a", -2, nil))
	w.balance("a", 2)
	w.balance("b", 0)
}

// TestRequestIsRecorded: with its time to live (2 hours unless said otherwise), a hash
// of the operations and the balances.
func TestRequestIsRecorded(t *testing.T) {
	w := newWorld(t)
	p := w.load("p", Policy{Default: 50, Limit: 50})
	w.again("user:me", "r1", op("a", -10, p))
	r := w.request("user:me", "r2", op("a", -10, p))
	r.TTL = time.Hour
	w.apply(w.store, Command{Apply: r})
	check(t, "remembered", w.store.Stats().Requests, 2)
	w.pass(time.Hour - 1)
	check(t, "an hour", w.again("user:me", "r2", op("a", -10, p)).Code, Repeated)
	w.pass(1)
	check(t, "an hour is over", w.again("user:me", "r2", op("a", -10, p)).Code, Done)
	w.pass(time.Hour - 1)
	check(t, "two hours", w.again("user:me", "r1", op("a", -10, p)).Code, Repeated)
	w.pass(1)
	check(t, "two hours are over", w.again("user:me", "r1", op("a", -10, p)).Code, Done)
	w.pass(2 * time.Hour)
	w.apply(w.store, Command{Collect: &Collect{Max: 10}})
	check(t, "collected", w.store.Stats().Requests, 0)
}

// TestRepetitionReturnsFirstResult: the hash matches, and the original result is
// returned without error.
func TestRepetitionReturnsFirstResult(t *testing.T) {
	w := newWorld(t)
	p := w.load("p", Policy{Default: 50, Limit: 50})
	first := w.again("user:me", "r1", op("a", -10, p), op("b", 1, p))
	w.pass(time.Minute)
	w.must(op("a", -30, nil))
	w.purge(p) // whether the policy is loaded does not matter
	again := w.again("user:me", "r1", op("a", -10, p), op("b", 1, p))
	check(t, "code", again.Code, Repeated)
	check(t, "when it was applied", again.At, first.At)
	for i := range first.Results {
		check(t, "result", again.Results[i], first.Results[i])
	}
}

// TestAtomicEitherWay: a request is applied as a whole or not at all, even if it fails at a bound
// of the store.
func TestAtomicEitherWay(t *testing.T) {
	w := newWorld(t)
	w.store = New(Bounds{MaxAccounts: 2})
	p := w.load("p", Policy{Default: 50, Limit: 50})
	before := w.bytes()
	out := w.do(op("a", 0, p), op("b", 0, p), op("c", 0, p))
	check(t, "code", out.Code, Full)
	check(t, "why", out.Message, "the range has 0 accounts, and 3 more do not fit: at most 2")
	check(t, "the same store", string(w.bytes()), string(before))
	w.must(op("a", 0, p), op("b", 0, p))
}

// TestOtherOperationsAreRefused: other operations with the same request id are an error.
func TestOtherOperationsAreRefused(t *testing.T) {
	w := newWorld(t)
	p := w.load("p", Policy{Default: 50, Limit: 50})
	q := w.load("q", Policy{Default: 50, Limit: 50})
	w.again("user:me", "r1", op("a", -10, p))
	for name, ops := range map[string][]Op{
		"another delta":    {op("a", -11, p)},
		"another account":  {op("b", -10, p)},
		"another policy":   {op("a", -10, q)},
		"no policy":        {op("a", -10, nil)},
		"another relation": {op("a", -10, p).to(Limit)},
		"another option":   {op("a", -10, p).with(DoNotCapProposed)},
		"one more":         {op("a", -10, p), op("a", -10, p)},
	} {
		check(t, name, w.again("user:me", "r1", ops...).Code, Mismatched)
	}
	w.balance("a", 40)
}

// TestFailuresAreNotRecorded: negative results are not recorded.
func TestFailuresAreNotRecorded(t *testing.T) {
	w := newWorld(t)
	p := w.load("p", Policy{Default: 5, Limit: 50})
	check(t, "fails", w.again("user:me", "r1", op("a", -10, p)).Code, Failed)
	check(t, "remembered", w.store.Stats().Requests, 0)
	check(t, "others may have the id", w.again("user:me", "r1", op("b", -1, p)).Code, Done)
}

// TestUnderflowMayBeRetried: a debit of 1 from 0 underflows, and the same request
// succeeds once the balance has risen.
func TestUnderflowMayBeRetried(t *testing.T) {
	w := newWorld(t)
	w.must(op("A", 0, w.load("p", Policy{Limit: 5, Refill: Refill{Units: 1, Interval: 60}})))
	out := w.again("user:me", "r1", op("A", -1, nil))
	check(t, "status", out.Results[0].Status, Underflow)
	w.pass(time.Minute)
	check(t, "later", w.again("user:me", "r1", op("A", -1, nil)).Code, Done)
	check(t, "and again", w.again("user:me", "r1", op("A", -1, nil)).Code, Repeated)
}

// TestDeterministicRequestIDs: ids may be derived from the subject of a decision. A rejection does
// not consume one, so a later decision can send the same request.
func TestDeterministicRequestIDs(t *testing.T) {
	w := newWorld(t)
	p := w.load("p", Policy{Limit: 1, Refill: Refill{Units: 1, Interval: 86400}})
	admitted := 0
	for range 3 * 24 { // stateless deciders, every hour, each about build 17
		if w.again("scheduler", "build-17", op("a", -1, p)).Code == Done {
			admitted++
		}
		w.must(op("a", 0, p)) // the account exists
		w.pass(time.Hour)
	}
	// The store remembers the id for 2 hours: a day later it is a new decision.
	check(t, "admitted", admitted, 2)
}
