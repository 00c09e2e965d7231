package accounts

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// TestLogTime: the log's time is that of its latest entry plus the time that has passed since. A
// clock ahead of it sets it only if it agrees with those of most nodes; entries that arrive late do
// not slow it.
func TestLogTime(t *testing.T) {
	const right = quota.Time(1_700_000_000_000_000_000)
	type step struct {
		wait   time.Duration
		clock  time.Duration // ahead of right
		agreed bool
		commit time.Duration // time until the entry is applied
		want   time.Duration // of the entry, ahead of right
	}
	for name, steps := range map[string][]step{
		"clocks agree": {
			{want: 0, agreed: true},
			{wait: time.Second, clock: time.Second, agreed: true, want: time.Second},
			{clock: 3 * time.Hour, agreed: true, want: 3 * time.Hour}, // after an outage
		},
		"a clock ahead": {
			{want: 0, agreed: true},
			{wait: time.Second, clock: 3 * time.Hour, want: time.Second},
			{clock: 3 * time.Hour, want: time.Second}, // however many entries follow
			{wait: time.Minute, clock: 3 * time.Hour, want: time.Minute + time.Second},
			{wait: time.Second, clock: time.Minute + 2*time.Second, agreed: true, want: time.Minute + 2*time.Second}, // another leader's clock
		},
		"a log that is ahead goes on": { // its first entry was ahead
			{clock: 3 * time.Hour, want: 3 * time.Hour},
			{wait: time.Second, clock: time.Second, agreed: true, want: 3*time.Hour + time.Second},
			{wait: time.Hour, clock: 4 * time.Hour, agreed: true, want: 4*time.Hour + time.Second},
			{wait: time.Second, clock: 5 * time.Hour, agreed: true, want: 5 * time.Hour},
		},
		"entries one after the other": {
			{want: 0, agreed: true, commit: time.Second}, {want: 0, commit: time.Second}, // no later than the first, which was a second old when applied
			{want: time.Second, commit: time.Second}, {want: 2 * time.Second, clock: -time.Hour, agreed: true},
		},
	} {
		for _, restored := range []bool{false, true} { // from a snapshot after each entry
			synctest.Test(t, func(t *testing.T) {
				r := NewReplica()
				restore(t, r) // of an empty replica
				for i, s := range steps {
					time.Sleep(s.wait)
					at := r.now(right.Add(s.clock), s.agreed)
					if restored && s.commit > 0 {
						return // a snapshot does not record the age of its time
					}
					if at != right.Add(s.want) {
						t.Fatalf("%s, restored %v: entry %d is of %v; want %v", name, restored, i, time.Duration(at-right), s.want)
					}
					time.Sleep(s.commit)
					data, err := account.EncodeBatch(at, []account.Command{{Collect: &account.Collect{Max: 1}}})
					if err != nil {
						t.Fatal(err)
					}
					r.Apply(data)
					if restored {
						restore(t, r)
					}
				}
			})
		}
	}
}

// restore makes a replica restore its own snapshot.
func restore(t *testing.T, r *Replica) {
	t.Helper()
	var out bytes.Buffer
	if err := r.View().Write(&out); err != nil {
		t.Fatal(err)
	}
	if err := r.Restore(&out); err != nil {
		t.Fatal(err)
	}
}

// TestClockOfTheLeaderAhead: while a leader's clock is hours ahead and not confirmed, a repeated
// request is not applied again, refills follow the time that passes, and no account expires. When
// most clocks agree on a later time, after an outage, everything that has come due happens at once.
func TestClockOfTheLeaderAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.rule = &account.Policy{Limit: 1_000_000, Refill: account.Refill{Units: 10, Interval: 60}, Lifetime: 2 * time.Hour}
		id := account.ID{App: "a", Realm: "r", Identity: "u", Name: "n", Resource: "x"}
		ref := &account.PolicyRef{Config: account.ConfigID{App: "a", Realm: "r", Version: "#1"}, Key: account.PolicyKey{Name: "n", Resource: "x"}}
		apply := func(request string, delta int64) (account.Code, int64) {
			t.Helper()
			out, err := w.ApplyOps(t.Context(), account.Caller{By: "me"}, request, time.Hour, []account.Op{{Account: id, Policy: ref, Delta: delta}})
			if err != nil {
				t.Fatal(err)
			}
			return out.Code, out.Results[0].New
		}
		balance := func() int64 {
			t.Helper()
			states, _, err := w.GetAccounts(t.Context(), []account.ID{id}, false)
			if err != nil {
				t.Fatal(err)
			}
			return states[0].Balance
		}
		apply("a deposit", 1000)
		w.setClock(3*time.Hour, true)
		w.Start() // the once-a-second look for what is due
		time.Sleep(10 * time.Second)
		apply("", 0)
		if code, _ := apply("a deposit", 1000); code != account.Repeated || balance() != 1000 {
			t.Errorf("a repetition: code %d; the balance is %d, want 1000", code, balance())
		}
		time.Sleep(2 * time.Minute)
		apply("", 0)
		if got := balance(); got != 1020 {
			t.Errorf("two minutes later the balance is %d; want 1020", got)
		}
		w.setClock(time.Hour, false)
		apply("", 0)
		if got := balance(); got != 1620 {
			t.Errorf("after an hour that the log has missed the balance is %d; want 1620", got)
		}
	})
}
