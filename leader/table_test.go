package leader

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestTable compares the table with a map.
func TestTable(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	limits := []*rule{{of: quota.LimitName{Limit: "a"}}, {of: quota.LimitName{Limit: "b"}}}
	tab, want := newTable(), map[quota.Key]*bucket{}
	for range 2000 {
		b := &bucket{rule: limits[rng.IntN(2)], name: strconv.Itoa(rng.IntN(200))}
		k := b.key()
		if got := tab.find(k); got != want[k] {
			t.Fatalf("%v: found %p, want %p", k, got, want[k])
		}
		if was := want[k]; was == nil {
			tab.add(b)
			want[k] = b
		} else {
			tab.remove(was)
			delete(want, k)
		}
		n := 0
		for b := range tab.all() {
			if n++; want[b.key()] != b {
				t.Fatalf("%v is listed, and was removed", b.key())
			}
		}
		if n != len(want) || tab.size != n {
			t.Fatalf("%d of %d keys are listed, size %d", n, len(want), tab.size)
		}
	}
}

// TestBucketsShareRules: buckets share the rule of their limit, which follows a change and ends with the last of them.
func TestBucketsShareRules(t *testing.T) {
	name := quota.LimitName{Namespace: "n", Limit: "l"}
	limits := func(version, rate int64) *quota.Limits {
		all, err := quota.NewLimits(uint64(version), []quota.Limit{{LimitName: name, Rate: quota.Rate{Tokens: rate, Per: time.Second}, Burst: 10}})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	now := quota.Time(time.Hour)
	l := New(Config{First: true}, 0, 1, "a", []quota.NodeID{"a"}, limits(1, 5), nil, now)
	inline, err := quota.Inline{Rate: quota.Rate{Tokens: 100, Per: time.Minute}, Burst: 20}.Name("n")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []quota.LimitName{name, inline} {
		one, two := l.open(now, quota.Key{LimitName: n, Key: "1"}), l.open(now, quota.Key{LimitName: n, Key: "2"})
		if one.rule != two.rule || one.buckets != 2 {
			t.Errorf("%v: two buckets have the rules %p and %p, of %d", n, one.rule, two.rule, one.buckets)
		}
	}
	l.SetLimits(now, limits(2, 7))
	one, two := l.bucket(quota.Key{LimitName: name, Key: "1"}), l.bucket(quota.Key{LimitName: name, Key: "2"})
	if one.rule != two.rule || one.limit.Rate.Tokens != 7 || one.tier.Rate.Tokens != 7 || one.buckets != 2 {
		t.Errorf("after a change, the rules are %+v and %+v", one.rule, two.rule)
	}
	for b := range l.buckets.all() {
		l.drop(b)
	}
	if len(l.rules) != 0 {
		t.Errorf("%d rules are left without buckets", len(l.rules))
	}
}
