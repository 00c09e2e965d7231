package aggregator

import (
	"strconv"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

const start = quota.Time(1_000_000_000_000)

var (
	softName = quota.LimitName{Namespace: "n", Limit: "soft"}
	hardName = quota.LimitName{Namespace: "n", Limit: "hard"}
)

// rig is a member with a clock, and a leader that grants what the test specifies.
type rig struct {
	*Aggregator
	t       *testing.T
	now     quota.Time
	version uint64
	grants  quota.Seq
}

// newRig returns a rig with a soft and a hard limit of 10/s, burst 20, and a leader.
func newRig(t *testing.T, cfg Config) *rig {
	t.Helper()
	cfg.Self, cfg.Ranges, cfg.Incarnation = "a", 1, 1
	r := &rig{Aggregator: New(cfg, start), t: t, now: start}
	r.limits(limit(softName, 20, quota.Soft), limit(hardName, 20, quota.Hard))
	r.SetLeader(0, "a", 1)
	return r
}

func limit(n quota.LimitName, burst int64, c quota.Ceiling) quota.Limit {
	return quota.Limit{LimitName: n, Rate: quota.Rate{Tokens: 10, Per: time.Second}, Burst: burst, Ceiling: c}
}

func (r *rig) limits(list ...quota.Limit) {
	r.t.Helper()
	r.version++
	limits, err := quota.NewLimits(r.version, list)
	if err != nil {
		r.t.Fatal(err)
	}
	r.SetLimits(r.now, limits)
}

func (r *rig) clock() quota.Time { return r.now }

func (r *rig) check(n quota.LimitName, key string, cost int64) quota.Decision {
	return r.checkNow(r.clock, n, key, cost)
}

// want fails unless a check of that cost has the given outcome.
func (r *rig) want(n quota.LimitName, cost int64, allowed bool, why quota.Why) {
	r.t.Helper()
	if d := r.check(n, "k", cost); d.Allowed != allowed || d.Why != why {
		r.t.Errorf("%v, cost %d: allowed %v, %v; want %v, %v", n, cost, d.Allowed, d.Why, allowed, why)
	}
}

// collect advances the clock until a report has entries.
func (r *rig) collect() quota.Report {
	r.t.Helper()
	for range 400 {
		for _, rep := range r.Collect(r.now) {
			if len(rep.Entries) > 0 {
				return rep
			}
		}
		r.now = r.now.Add(10 * time.Millisecond)
	}
	r.t.Fatal("nothing to report for four seconds")
	return quota.Report{}
}

// grant answers a report: every key gets a grant with the values of e.
func (r *rig) grant(rep quota.Report, e quota.GrantEntry) quota.Grant {
	g := quota.Grant{Range: rep.Range, Term: rep.Term, To: "a", From: "a", At: r.now}
	for i := range rep.Entries {
		r.grants++
		e.Key, e.Epoch, e.Ack, e.Seq = rep.Entries[i].Key, rep.Entries[i].Epoch, rep.Seq, r.grants
		e.Lease, e.Again, e.Closed = 3*time.Second, 100*time.Millisecond, rep.Entries[i].Final
		g.Entries = append(g.Entries, e)
	}
	return g
}

func (r *rig) answer(rep quota.Report, e quota.GrantEntry) {
	r.Apply(r.now, r.grant(rep, e))
}

const tokens = quota.Token

func TestReasons(t *testing.T) {
	t.Run("no limit", func(t *testing.T) {
		r := newRig(t, Config{})
		r.want(quota.LimitName{Namespace: "n", Limit: "nobody"}, 1, false, quota.WhyNoLimit)
	})
	t.Run("over burst", func(t *testing.T) {
		r := newRig(t, Config{})
		r.want(softName, 21, false, quota.WhyOverBurst)
		r.want(hardName, 21, false, quota.WhyOverBurst)
	})
	t.Run("held", func(t *testing.T) {
		for _, n := range []quota.LimitName{softName, hardName} {
			r := newRig(t, Config{})
			r.check(n, "k", 1)
			r.answer(r.collect(), quota.GrantEntry{Tokens: 5 * tokens, Cap: 5 * tokens, Level: 10 * tokens})
			r.want(n, 5, true, quota.WhyHeld)
		}
	})
	t.Run("estimate, then over limit", func(t *testing.T) {
		r := newRig(t, Config{})
		r.want(softName, 20, true, quota.WhyEstimate)
		r.want(softName, 1, false, quota.WhyOverLimit)
		if d := r.check(softName, "k", 1); d.RetryAfter != 100*time.Millisecond || d.Remaining != 0 {
			t.Errorf("retry after %v with %d remaining, want a token's time and 0", d.RetryAfter, d.Remaining)
		}
	})
	t.Run("the leader's level counts", func(t *testing.T) {
		r := newRig(t, Config{})
		r.want(softName, 1, true, quota.WhyEstimate)
		r.answer(r.collect(), quota.GrantEntry{Level: -2 * tokens})
		r.want(softName, 1, false, quota.WhyOverLimit)
	})
	t.Run("not held, then over limit", func(t *testing.T) {
		r := newRig(t, Config{})
		r.want(hardName, 1, false, quota.WhyNotHeld)
		r.answer(r.collect(), quota.GrantEntry{Level: 0})
		r.want(hardName, 1, false, quota.WhyOverLimit)
	})
	t.Run("cut off after a lease: local and cut_off", func(t *testing.T) {
		r := newRig(t, Config{})
		for _, n := range []quota.LimitName{softName, hardName} {
			r.check(n, "k", 1)
		}
		r.answer(r.collect(), quota.GrantEntry{Tokens: tokens, Cap: tokens, Level: 20 * tokens, Others: 1000 * tokens})
		r.now = r.now.Add(4 * time.Second)
		r.Collect(r.now) // in production at every sync interval: held tokens are void
		r.want(softName, 20, true, quota.WhyLocal)
		r.want(softName, 1, false, quota.WhyOverLimit)
		r.want(hardName, 1, false, quota.WhyCutOff)
		r.now = r.now.Add(100 * time.Millisecond) // the whole limit, locally
		r.want(softName, 1, true, quota.WhyLocal)
	})
	t.Run("too many keys", func(t *testing.T) {
		r := newRig(t, Config{})
		soft, hard := limit(softName, 20, quota.Soft), limit(hardName, 20, quota.Hard)
		soft.MaxKeys, hard.MaxKeys = 1, 1
		r.limits(soft, hard)
		r.check(softName, "first", 1)
		r.check(hardName, "first", 1)
		r.want(softName, 20, true, quota.WhyEstimate) // all further keys share one bucket
		if d := r.check(softName, "another", 1); d.Allowed || d.Why != quota.WhyOverLimit {
			t.Errorf("another key beyond max_keys: allowed %v, %v", d.Allowed, d.Why)
		}
		r.Refund(r.clock, softName, "another", 5)
		r.want(softName, 5, true, quota.WhyEstimate)
		r.want(softName, 1, false, quota.WhyOverLimit)
		r.want(hardName, 1, false, quota.WhyTooManyKeys)
	})
}

// TestCeilingsWithoutLeader checks a member that has never received an answer: soft counts locally, hard has nothing
// to spend.
func TestCeilingsWithoutLeader(t *testing.T) {
	r := newRig(t, Config{})
	r.want(softName, 1, true, quota.WhyEstimate)
	r.want(hardName, 1, false, quota.WhyNotHeld)
	r.now = r.now.Add(3 * time.Second)
	r.want(softName, 1, true, quota.WhyLocal)
	r.want(hardName, 1, false, quota.WhyCutOff)
}

func TestRetryKeepsCounters(t *testing.T) {
	r := newRig(t, Config{})
	r.Collect(r.now) // the full report, which is empty, and its answer
	r.Apply(r.now, quota.Grant{Term: 1, From: "a", To: "a", At: r.now})
	r.check(softName, "k", 3)
	first := r.collect()
	r.check(softName, "k", 4)
	sent := r.now
	second := r.collect() // the first report is never answered
	if d := r.now.Sub(sent); d < 25*time.Millisecond || d > 100*time.Millisecond {
		t.Errorf("sent again after %v, want about a quarter of an interval", d)
	}
	a, b := first.Entries[0], second.Entries[0]
	if a.Overdrawn != 3*tokens || b.Overdrawn != 7*tokens || b.Unreported != 7*tokens || a.Epoch != b.Epoch || second.Seq <= first.Seq {
		t.Errorf("first %+v\nthen  %+v\nwant 3 and 7 overdrawn in the same epoch", first, second)
	}
	r.answer(second, quota.GrantEntry{Level: 10 * tokens})
	r.check(softName, "k", 1)
	third := r.collect().Entries[0]
	if third.Overdrawn != 8*tokens || third.Unreported != tokens {
		t.Errorf("after the answer: %+v, want 8 overdrawn, 1 of it unreported", third)
	}
	for _, after := range []time.Duration{50, 100, 100, 200, 300, 300} { // neither the third report nor a repetition is answered
		sent := r.now
		r.collect()
		if d := r.now.Sub(sent); d < (after-10)*time.Millisecond || d > (after+10)*time.Millisecond {
			t.Errorf("sent again after %v, want about %v: a quarter of an interval or four times what answers take, twice as long each time, at most three intervals", d, after*time.Millisecond)
		}
	}
}

func TestNewLeaderIsTold(t *testing.T) {
	r := newRig(t, Config{})
	r.check(hardName, "k", 1)
	r.answer(r.collect(), quota.GrantEntry{Tokens: 5 * tokens, Rate: 2 * tokens, Cap: 6 * tokens, Level: 9 * tokens})
	r.want(hardName, 2, true, quota.WhyHeld)
	r.SetLeader(0, "b", 2)
	told := r.Collect(r.now)
	if len(told) != 1 || !told[0].Full || told[0].Term != 2 || len(told[0].Entries) != 1 {
		t.Fatalf("told %+v, want one full report of one key", told)
	}
	e := told[0].Entries[0]
	if e.Used != 2*tokens || e.Held != 3*tokens || e.Unreported != 2*tokens || e.Applied != 0 || e.Learn == nil {
		t.Errorf("told %+v", e)
	} else if l := e.Learn; !l.HasLevel || l.Level != 9*tokens || l.Rate != 2*tokens || l.Cap != 6*tokens || l.LeaseLeft != 3*time.Second {
		t.Errorf("taught %+v", l)
	}

	// It was lost: the full report is repeated, with the level for the new leader (Learn).
	again := r.collect()
	if !again.Full || again.Entries[0].Learn == nil {
		t.Errorf("told again %+v, want it full and with what a new leader needs", again)
	}
	g := r.grant(again, quota.GrantEntry{Level: 4 * tokens})
	g.From = "b"
	r.Apply(r.now, g)
	r.check(hardName, "k", 1)
	if rep := r.collect(); rep.Full || rep.Entries[0].Learn != nil {
		t.Errorf("once it has granted: %+v, want an ordinary report", rep)
	}
}

func TestOldGrantsAreIgnored(t *testing.T) {
	r := newRig(t, Config{})
	r.check(hardName, "k", 1)
	rep := r.collect()
	five := quota.GrantEntry{Tokens: 5 * tokens, Cap: 5 * tokens, Level: 20 * tokens}
	g := r.grant(rep, five)
	key := rep.Entries[0].Key

	stranger := g
	stranger.From = "b"
	r.Apply(r.now, stranger)
	outOfRange := g
	outOfRange.Range = 7
	r.Apply(r.now, outOfRange)
	r.SetLeader(0, "b", 2)
	r.Apply(r.now, g)
	if held := r.Held(key); held != 0 {
		t.Errorf("holds %d after grants of a stranger and of a lower term, want 0", held)
	}

	r.SetLeader(0, "c", 1) // lower: ignored
	if who, term := r.Leader(0); who != "b" || term != 2 {
		t.Errorf("led by %v in term %d, want b in 2", who, term)
	}
	now := r.grant(r.collect(), five)
	now.From = "b"
	r.Apply(r.now, now)
	r.Apply(r.now, now) // repeated
	if held := r.Held(key); held != 5*tokens {
		t.Errorf("holds %d after one grant of 5 that came twice", held)
	}
}

// idle lets a key close: it reports, is answered, and sends its final report.
func (r *rig) idle(level quota.Units) {
	r.t.Helper()
	for range 50 {
		for _, rep := range r.Collect(r.now) {
			r.answer(rep, quota.GrantEntry{Level: level})
		}
		r.now = r.now.Add(100 * time.Millisecond)
	}
}

func TestIdleKeys(t *testing.T) {
	r := newRig(t, Config{Idle: time.Minute, MaxKeys: 64})
	r.check(softName, "k", 5)
	r.idle(-100 * tokens)
	if d := r.check(softName, "k", 1); d.Allowed {
		t.Error("a closed key has a fresh burst")
	}
	r.idle(-100 * tokens)
	r.Sweep(r.now)
	if r.Len() != 1 {
		t.Errorf("%d keys right after the last use, want 1", r.Len())
	}
	r.now = r.now.Add(2 * time.Minute)
	r.Sweep(r.now)
	if r.Len() != 0 {
		t.Errorf("%d keys after two minutes without use, want none", r.Len())
	}

	// A key that was dropped starts full, until the leader reports its level.
	r.want(softName, 1, true, quota.WhyEstimate)
	r.answer(r.collect(), quota.GrantEntry{Level: -5 * tokens})
	r.want(softName, 1, false, quota.WhyOverLimit)
}

func TestIdleKeysGoWhenTheTableIsFull(t *testing.T) {
	r := newRig(t, Config{MaxKeys: 32})
	for i := range 32 {
		r.check(softName, strconv.Itoa(i), 1)
	}
	if n := r.Len(); n != 30 {
		t.Errorf("%d keys; want 30: a sixteenth is for limits that have less than their share", n)
	}
	r.idle(19 * tokens)
	r.Sweep(r.now)
	if n := r.Len(); n != 29 {
		t.Errorf("%d keys after a sweep of a full table, want half a sixteenth dropped", n)
	}
	if r.check(softName, "one more", 1); r.bucketOf(softName, "one more") == nil {
		t.Error("there is no room for a new key after the sweep")
	}
}

func TestLimitsSwapped(t *testing.T) {
	r := newRig(t, Config{})
	r.check(hardName, "k", 1)
	r.answer(r.collect(), quota.GrantEntry{Tokens: 15 * tokens, Cap: 15 * tokens, Level: 15 * tokens})
	r.want(hardName, 10, true, quota.WhyHeld)

	r.limits(limit(hardName, 1000, quota.Hard)) // soft is removed
	r.want(softName, 1, false, quota.WhyNoLimit)
	r.want(hardName, 6, false, quota.WhyOverLimit)
	r.want(hardName, 5, true, quota.WhyHeld)

	r.answer(r.collect(), quota.GrantEntry{Tokens: 15 * tokens, Cap: 15 * tokens, Level: 15 * tokens})
	r.limits(limit(hardName, 3, quota.Hard))
	r.want(hardName, 4, false, quota.WhyOverBurst)
	r.want(hardName, 3, false, quota.WhyNotHeld) // others may hold as much
	r.answer(r.collect(), quota.GrantEntry{Tokens: 3 * tokens, Cap: 3 * tokens, Level: 3 * tokens})
	r.want(hardName, 3, true, quota.WhyHeld)
	if d := r.check(hardName, "k", 1); d.Allowed {
		t.Errorf("a burst of 3 let 4 tokens pass: %v", d.Why)
	}

	r.limits(limit(softName, 20, quota.Soft)) // hard is removed; soft is back, as a new limit
	r.want(hardName, 1, false, quota.WhyNoLimit)
	r.want(softName, 20, true, quota.WhyEstimate)
	if n := r.Len(); n != 1 {
		t.Errorf("%d keys, want that of the limit that is left", n)
	}
}

// TestCutReturnsAll: a member of a hard limit returns tokens and rate when the rate or the burst is cut, because the parts of
// all members fitted into the limit as it was.
func TestCutReturnsAll(t *testing.T) {
	for name, cut := range map[string]func(*quota.Limit){
		"burst": func(l *quota.Limit) { l.Burst = 19 },
		"rate":  func(l *quota.Limit) { l.Rate.Tokens = 9 },
	} {
		r := newRig(t, Config{})
		l := limit(hardName, 20, quota.Hard)
		r.limits(l)
		r.check(hardName, "k", 1)
		r.answer(r.collect(), quota.GrantEntry{Tokens: 5 * tokens, Cap: 10 * tokens, Rate: 10 * tokens, Level: 15 * tokens})
		r.now = r.now.Add(100 * time.Millisecond)
		cut(&l)
		r.limits(l)
		r.check(hardName, "k", 1)
		if e := r.collect().Entries[0]; e.Returned != 6*tokens || e.Held != 0 || !e.Stopped {
			t.Errorf("%s: %d returned, %d held, stopped %v; want the five tokens, the yield of the rate, and the rate returned", name, e.Returned, e.Held, e.Stopped)
		}
	}
}

// TestCutWhileAllocated: what clients held when a hard limit was cut returns to the leader. Until it has, they get nothing:
// with newer tokens in a client's hands nobody could tell which of them come back.
func TestCutWhileAllocated(t *testing.T) {
	r := newRig(t, Config{})
	l, k := limit(hardName, 20, quota.Hard), quota.Key{LimitName: hardName, Key: "k"}
	r.limits(l)
	r.check(hardName, "k", 1)
	r.answer(r.collect(), quota.GrantEntry{Tokens: 9 * tokens, Cap: 9 * tokens, Level: 19 * tokens})
	first := r.Allocate(r.clock, k, AllocationRequest{Tokens: 5 * tokens})
	l.Burst = 10
	r.limits(l)
	r.answer(r.collect(), quota.GrantEntry{Tokens: 3 * tokens, Cap: 3 * tokens, Level: 3 * tokens, Burst: 10 * tokens})
	if a := r.Allocate(r.clock, k, AllocationRequest{Tokens: 1 * tokens}); first.Tokens != 5*tokens || a.Tokens != 0 {
		t.Fatalf("allocated %d before the cut and %d after it, want 5 and none", first.Tokens/tokens, a.Tokens/tokens)
	}
	held := r.Held(k)
	r.Settle(r.clock, k, Settlement{Gen: first.Gen, Back: 2 * tokens, Used: 1 * tokens, Holders: 1})
	r.Settle(r.clock, k, Settlement{Gen: first.Gen, Back: 3 * tokens, Used: 1 * tokens, Holders: 1})
	if got := r.Held(k); got != held {
		t.Errorf("%d tokens held after the clients settled, want the %d of the new grant", got/tokens, held/tokens)
	}
	if a := r.Allocate(r.clock, k, AllocationRequest{Tokens: 1 * tokens}); a.Tokens != 1*tokens {
		t.Errorf("allocated %d after all was settled, want 1", a.Tokens/tokens)
	}
}

// TestDebtOfOtherNodes: each of five nodes and their clients may overdraw a burst, so the level that a node receives may be
// far below zero. The node books nevertheless what its own client has overdrawn, down to 14 bursts of 20 below zero.
func TestDebtOfOtherNodes(t *testing.T) {
	r, k := newRig(t, Config{Nodes: 5}), quota.Key{LimitName: softName, Key: "k"}
	r.check(softName, "k", 1)
	r.answer(r.collect(), quota.GrantEntry{Level: -260 * tokens})
	for _, want := range []int64{15, 20} {
		r.Settle(r.clock, k, Settlement{Holders: 1, Overdrawn: 15 * tokens})
		if got := r.collect().Entries[0].Overdrawn.Tokens() - 1; got != want {
			t.Errorf("%d overdrawn tokens are booked, want %d", got, want)
		}
	}
}

// TestRefundOfFull: a refund of a hard bucket that has refilled in the meantime is not reported: the leader would add it to a
// level that others have used since.
func TestRefundOfFull(t *testing.T) {
	r := newRig(t, Config{})
	r.check(hardName, "k", 1)
	r.answer(r.collect(), quota.GrantEntry{Tokens: 8 * tokens, Cap: 8 * tokens, Level: 20 * tokens})
	r.want(hardName, 8, true, quota.WhyHeld)
	for _, want := range []quota.Units{3, 5} { // 8 missing; 2 missing after 300 ms of 10/s
		r.Refund(r.clock, hardName, "k", 3)
		if e := r.bucketOf(hardName, "k").reported(r.now, 1); e.Refunded != want*tokens {
			t.Errorf("%d refunded, want %d", e.Refunded/tokens, want)
		}
		r.now = r.now.Add(300 * time.Millisecond)
	}
}
