package leader

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestTopSince: the list has the requests since the last one, and any other key had at most Rest.
// This includes keys whose buckets were dropped, or dropped and opened again.
func TestTopSince(t *testing.T) {
	n := quota.LimitName{Namespace: "n", Limit: "l"}
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 9))
		l := &Ledger{buckets: newTable(), departed: map[quota.Key]listing{}, lost: map[quota.LimitName]quota.Units{}}
		truth := map[string]quota.Units{}
		for range rng.IntN(300) {
			k := quota.Key{LimitName: n, Key: strconv.Itoa(rng.IntN(40))}
			b := l.buckets.find(k)
			if b == nil {
				b = attemptedBucket(k, 0)
				l.buckets.add(b)
			}
			cost := quota.Units(rng.IntN(1 << rng.IntN(12)))
			b.attempted += cost
			l.noteChanged(0, b)
			truth[k.Key] += cost
			switch rng.IntN(12) {
			case 0:
				l.keepCounts(b)
				l.buckets.remove(b)
				b.dropped = true
			case 1:
				each, all := rng.IntN(12), rng.IntN(12)
				checkTop(t, seed, l.TopSince(each, all), truth, each, all)
				clear(truth)
			}
		}
		checkTop(t, seed, l.TopSince(5, 5), truth, 5, 5)
	}
}

// attemptedBucket returns a bucket that only counts.
func attemptedBucket(k quota.Key, attempted quota.Units) *bucket {
	return &bucket{
		rule: newRule(k.LimitName, &quota.Limit{Decide: quota.AtLeader}, time.Second), name: k.Key, visitState: visitState{alarm: never},
		state: &state{bookState: bookState{attempted: attempted}},
	}
}

// TestTopSinceSaturates: sums that overflow stay at the largest value.
func TestTopSinceSaturates(t *testing.T) {
	k, lost := quota.Key{LimitName: quota.LimitName{Namespace: "n", Limit: "l"}, Key: "k"}, quota.LimitName{Namespace: "n", Limit: "m"}
	l := &Ledger{buckets: newTable(), departed: map[quota.Key]listing{}, lost: map[quota.LimitName]quota.Units{lost: quota.Most}}
	for range 2 {
		l.keepCounts(&bucket{rule: &rule{of: k.LimitName}, name: k.Key, state: &state{bookState: bookState{attempted: math.MaxInt64, admitted: math.MaxInt64}}})
	}
	most := attemptedBucket(k, quota.Most)
	most.admitted = quota.Most
	l.noteChanged(0, most)
	l.noteChanged(0, attemptedBucket(quota.Key{LimitName: lost, Key: "k"}, 1))
	got := l.TopSince(5, 5)
	want := []TopKeys{
		{Limit: k.LimitName, Keys: []KeyCount{{"k", math.MaxInt64, math.MaxInt64}}},
		{Limit: lost, Keys: []KeyCount{{"k", 1, 0}}, Rest: math.MaxInt64},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v; want %+v", got, want)
	}
}

func checkTop(t *testing.T, seed uint64, got []TopKeys, truth map[string]quota.Units, each, all int) {
	t.Helper()
	rest, listed := quota.Units(0), map[string]bool{}
	for _, top := range got {
		rest = top.Rest
		if len(top.Keys) > min(each, all) {
			t.Fatalf("seed %d: %d keys; at most %d, %d", seed, len(top.Keys), each, all)
		}
		for _, k := range top.Keys {
			listed[k.Key] = true
			if k.Attempted != truth[k.Key] {
				t.Fatalf("seed %d: %s: %d; want %d", seed, k.Key, k.Attempted, truth[k.Key])
			}
		}
	}
	for k, want := range truth {
		if !listed[k] && want > rest {
			t.Fatalf("seed %d: %s has %d, more than the rest, %d", seed, k, want, rest)
		}
	}
}
