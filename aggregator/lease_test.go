package aggregator

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestRateEndsWithLease: a rate yields nothing after its lease, however late the bucket is accrued. A later yield
// could be spent for a moment, and the next report would return the rest; the leader takes returned tokens for tokens
// that were held all the time.
func TestRateEndsWithLease(t *testing.T) {
	for _, tc := range []struct {
		name string
		look func(*rig) // reads the key, a second after the lease
	}{
		{"a report", func(*rig) {}},
		{"a check", func(r *rig) { r.check(hardName, "k", 1) }},
		{"a grant", func(r *rig) {
			b, _ := r.find(key("hard", "k"))
			r.Apply(r.now, quota.Grant{Term: 1, From: "a", To: "a", At: r.now, Entries: []quota.GrantEntry{
				{Key: key("hard", "k"), Epoch: b.epoch, Seq: r.grants + 1, Lease: 3 * time.Second},
			}})
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, Config{})
			r.check(hardName, "k", 1)
			r.answer(r.collect(), quota.GrantEntry{Rate: 2 * tokens, Cap: 20 * tokens, Level: 20 * tokens}) // for 3 s
			r.now = r.now.Add(4 * time.Second)
			tc.look(r)
			if e := r.collect().Entries[0]; e.Returned != 6*tokens || e.Held != 0 || e.Used != 0 {
				t.Errorf("%d returned, %d held, %d used; want the 6 tokens of the lease returned", e.Returned, e.Held, e.Used)
			}
		})
	}
}

// TestFractionGoesBack: where a hard limit grants no rate, nothing completes a fraction of a token, so the next
// report returns it: it would stay here unused, and the rest of its token at the leader. While a rate adds to it, it
// stays.
func TestFractionGoesBack(t *testing.T) {
	for _, tc := range []struct{ rate, held quota.Units }{{0, tokens}, {1, tokens + tokens/2}} {
		r := newRig(t, Config{})
		r.check(hardName, "k", 1)
		r.answer(r.collect(), quota.GrantEntry{Tokens: 2*tokens + tokens/2, Rate: tc.rate, Cap: 3 * tokens, Level: 10 * tokens})
		r.want(hardName, 1, true, quota.WhyHeld)
		for range 5 { // its reserve exceeds held
			r.want(hardName, 20, false, quota.WhyOverLimit)
		}
		if e := r.collect().Entries[0]; e.Held != tc.held {
			t.Errorf("a rate of %d: %d held, want %d", tc.rate, e.Held, tc.held)
		}
	}
}
