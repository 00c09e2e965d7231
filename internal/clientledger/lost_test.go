package clientledger

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestLostIsNotRegainedTwice: tokens of a silent client count as used. When it reports that it has not used them, a hard
// bucket that has refilled since does not gain them again.
func TestLostIsNotRegainedTwice(t *testing.T) {
	const burst = 40
	l := bucketLimit(quota.Hard, 10, burst)
	l.Decide = quota.Locally
	w := newWorld(t, l, 2)
	silent, other := w.procs[0], w.procs[1]
	for range 20 {
		w.ask(silent, l.LimitName, "k", 1)
		w.run(5*time.Millisecond, 5*time.Millisecond)
	}
	if n := w.b.clients[silent.id].keys[quota.Key{LimitName: l.LimitName, Key: "k"}].allocated; n < 4*quota.Token {
		t.Fatalf("%d allocated", n/quota.Token)
	}
	w.procs = w.procs[1:]
	for range 100 { // the key stays open here
		w.ask(other, l.LimitName, "k", 1)
		w.run(200*time.Millisecond, 10*time.Millisecond)
	}
	admitted, began := int64(0), w.now
	take := func() {
		for end := w.now.Add(500 * time.Millisecond); w.now < end; w.run(5*time.Millisecond, 5*time.Millisecond) {
			if w.ask(other, l.LimitName, "k", 1) {
				admitted++
			}
		}
	}
	take()
	w.procs = append(w.procs, silent)
	w.pump() // it reports
	w.procs = w.procs[:1]
	take()
	if most := burst + int64(10*w.now.Sub(began).Seconds()); admitted > most {
		t.Errorf("%d admitted, %d at most", admitted, most)
	}
}

// TestRegainedSinceTheLoss: a later grant renews the lease of the allocation, and not the time since which the lost tokens
// counted as used. A bucket that refills slowly gains what it has not refilled, exactly.
func TestRegainedSinceTheLoss(t *testing.T) {
	const hour = quota.Time(time.Hour)
	for _, tc := range []struct {
		rate  quota.Rate
		since quota.Time
		want  quota.Units
	}{
		{quota.Rate{Tokens: 10, Per: time.Second}, 5 * quota.Time(time.Second), 0},
		{quota.Rate{Tokens: 10, Per: time.Second}, 3 * quota.Time(time.Second), 20 * quota.Token},
		{quota.Rate{Tokens: 7, Per: 24 * time.Hour}, 24 * hour, 43 * quota.Token},
		{quota.Rate{Tokens: 7, Per: 24 * time.Hour}, 0, 50 * quota.Token},
	} {
		al := &allocation{bucket: &bucket{limit: &quota.Limit{Kind: quota.TokenBucket, Rate: tc.rate, Burst: 50, Ceiling: quota.Hard}}}
		al.lost, al.lostAt = 50*quota.Token, hour
		l := &Ledger{now: hour + tc.since}
		al.lease = l.now.Add(3 * time.Second)
		if got := l.regained(al, al.lost); got != tc.want {
			t.Errorf("%v, %v after the loss: %v regained, want %v", tc.rate, time.Duration(tc.since), got, tc.want)
		}
	}
}
