package rules

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestSearchOrder checks quotaservice's search order: the limit, the namespace's template, its
// default, the global default. It also checks which name a key is counted under.
func TestSearchOrder(t *testing.T) {
	burst := func(ns, name string, n int64) quota.Limit {
		return quota.Limit{LimitName: quota.LimitName{Namespace: ns, Limit: name}, Rate: quota.Rate{Tokens: 1, Per: time.Hour}, Burst: n}
	}
	all := []quota.Limit{
		burst("a", "listed", 1), burst("a", quota.Template, 2), burst("a", quota.Default, 3),
		burst("b", "listed", 4), burst("b", quota.Default, 5),
		burst("c", "listed", 6), burst(quota.Global.Namespace, quota.Global.Limit, 7),
	}
	for _, tc := range []struct {
		ns, name string
		burst    int64
		key      string
	}{
		{"a", "listed", 1, "k"},
		{"a", "other", 2, "other/k"},
		{"b", "listed", 4, "k"},
		{"b", "other", 5, "k"},
		{"c", "listed", 6, "k"},
		{"c", "other", 7, "k"},
		{"nobody", "other", 7, "k"},
	} {
		g := newOneRange(t, 1, all...)
		n := quota.LimitName{Namespace: tc.ns, Limit: tc.name}
		if got := g.drain(0, quota.Key{LimitName: n, Key: "k"}, 20); int64(got) != tc.burst {
			t.Errorf("%v: %d passed, want %d", n, got, tc.burst)
		}
		d := g.take(0, quota.Key{LimitName: n, Key: "k"}, 1)
		if d.Limit == nil || d.Limit.Burst != tc.burst {
			t.Fatalf("%v: %v decided", n, d.Limit)
		}
		g.settle()
		if got := g.level(quota.Key{LimitName: d.Limit.LimitName, Key: tc.key}); got > quota.Token {
			t.Errorf("%v is not counted by %q: level %d", n, tc.key, got)
		}
	}
	g := newOneRange(t, 1, all[:6]...)
	if d := g.take(0, quota.Key{LimitName: quota.LimitName{Namespace: "nobody", Limit: "x"}, Key: "k"}, 1); d.Why != quota.WhyNoLimit {
		t.Errorf("without a global default: %v", d.Why)
	}
}

// TestMaxKeys checks that max_keys bounds the keys of a template, for each limit separately.
// Further keys of a soft limit share a bucket, except in-flight keys and keys that need their own
// bucket. Idle keys make room, also while others stay.
func TestMaxKeys(t *testing.T) {
	template := func(ns string, ceiling quota.Ceiling) quota.Limit {
		return quota.Limit{
			LimitName: quota.LimitName{Namespace: ns, Limit: quota.Template}, Rate: quota.Rate{Tokens: 100, Per: time.Second}, Burst: 10,
			Ceiling: ceiling, MaxKeys: 3, Idle: 5 * time.Second,
		}
	}
	slowest := ruleOf("slowest", perHour(10))
	flight := quota.Limit{LimitName: quota.LimitName{Namespace: "flight", Limit: quota.Template}, Kind: quota.Concurrency, Burst: 1, MaxKeys: 3, Idle: 5 * time.Second}
	g := newOneRange(t, 1, template("soft", quota.Soft), template("hard", quota.Hard), flight, slowest)
	g.take(0, key("slowest", "k"), 5) // not full again for hours, and closed first
	g.pass(3 * time.Second)
	name := func(ns string, i int) quota.Key {
		return quota.Key{LimitName: quota.LimitName{Namespace: ns, Limit: "l" + strconv.Itoa(i)}, Key: "k"}
	}
	for _, ns := range []string{"soft", "hard"} {
		for i := range 3 {
			if d := g.take(0, name(ns, i), 1); !d.Allowed || d.Why == quota.WhyTooManyKeys {
				t.Errorf("%s, bucket %d: %v", ns, i, d.Why)
			}
		}
	}
	if d := g.take(0, name("hard", 3), 1); d.Allowed || d.Why != quota.WhyTooManyKeys {
		t.Errorf("hard, the fourth: allowed %v, %v", d.Allowed, d.Why)
	}
	needs := ask(name("soft", 3).LimitName, "k", 1)
	needs.NeedsBucket = true
	if ok, out := g.call(0, true, needs); ok || out[0].Why != quota.WhyTooManyKeys {
		t.Errorf("soft, the fourth, which needs a bucket: allowed %v, %v", ok, out[0].Why)
	}
	passed := 0
	for i := range 100 { // the burst of one bucket, plus its refill
		passed += g.drain(0, name("soft", 3+i), 1)
	}
	if passed < 10 || passed > 30 {
		t.Errorf("soft, of 100 more keys %d pass; want the burst of one, 10", passed)
	}
	for i := range 10 { // each key has its own places, which are returned by its name
		if d := g.take(0, name("flight", i), 1); !d.Allowed || (d.Why == quota.WhyTooManyKeys) != (i >= 3) {
			t.Errorf("in flight, key %d: allowed %v, %v", i, d.Allowed, d.Why)
		}
	}
	for i := range 3 {
		g.members[0].Release(g.clock, name("flight", i).LimitName, "k", 1, nil)
	}
	for range 12 {
		g.pass(time.Second)
		g.members[0].Sweep(g.now)
	}
	if n := g.members[0].Len(); n != 1 {
		t.Errorf("%d keys when all but one were idle and full, want 1", n)
	}
	for _, ns := range []string{"soft", "hard"} {
		if d := g.take(0, name(ns, 3), 1); !d.Allowed || d.Why == quota.WhyTooManyKeys {
			t.Errorf("%s, after the others went: %v", ns, d.Why)
		}
	}
}

// TestMaxKeysUnderLoad checks that many concurrent callers with new keys create at most max_keys.
func TestMaxKeysUnderLoad(t *testing.T) {
	for range 20 {
		g := newOneRange(t, 1, ruleOf("l", perHour(10), func(l *quota.Limit) { l.MaxKeys = 5 }))
		var wg sync.WaitGroup
		for c := range 8 {
			wg.Go(func() {
				for i := range 50 {
					g.checkNow(0, key("l", fmt.Sprint(c, "-", i)), 1)
				}
			})
		}
		wg.Wait()
		if n := g.members[0].Len(); n != 5 {
			t.Fatalf("%d keys, want 5", n)
		}
	}
}

// TestIdleBehindOthers checks that keys with a short idle time are dropped although a key with a
// long one was closed before them.
func TestIdleBehindOthers(t *testing.T) {
	long := ruleOf("long", quota.Tier{Rate: quota.Rate{Tokens: 100, Per: time.Second}, Burst: 10}, func(l *quota.Limit) { l.Idle = time.Hour })
	short := long
	short.LimitName.Limit, short.Idle = "short", 2*time.Second
	g := newOneRange(t, 1, long, short)
	g.take(0, key("long", "k"), 1)
	g.pass(3 * time.Second)
	for i := range 20 {
		g.take(0, key("short", strconv.Itoa(i)), 1)
	}
	for range 10 {
		g.pass(time.Second)
		g.members[0].Sweep(g.now)
	}
	if n := g.members[0].Len(); n != 1 {
		t.Errorf("%d keys, want that of an hour alone", n)
	}
}

// TestClasses checks unlimited and banned limits, and overrides of both kinds.
func TestClasses(t *testing.T) {
	free := ruleOf("free", quota.Tier{Rate: quota.Rate{Per: time.Second}}, func(l *quota.Limit) { l.Class = quota.Unlimited })
	ban := ruleOf("ban", perHour(10), func(l *quota.Limit) { l.Class = quota.Banned })
	g := newOneRange(t, 1, free, ban, ruleOf("l", perHour(2)))
	for _, cost := range []int64{0, 1, 1 << 50} {
		if d := g.take(0, key("free", "k"), cost); !d.Allowed || d.Why != quota.WhyUnlimited {
			t.Errorf("unlimited, cost %d: %v", cost, d.Why)
		}
		if d := g.take(0, key("ban", "k"), cost); d.Allowed || d.Why != quota.WhyBanned || d.Remaining != 0 {
			t.Errorf("banned, cost %d: %v", cost, d.Why)
		}
	}
	if n := g.members[0].Len(); n != 0 {
		t.Errorf("%d buckets for limits that do not count", n)
	}
	k := key("l", "k")
	g.override(k, &quota.Override{Burst: -1, Class: quota.Unlimited})
	if n := g.drain(0, k, 50); n != 50 {
		t.Errorf("%d of 50 passed an unlimited override", n)
	}
	g.override(k, nil)
	if n := g.drain(0, k, 50); n != 2 {
		t.Errorf("%d passed once it had ended, want the limit's 2", n)
	}
}

// TestEnforcement checks that shadow decides, counts and admits; that off does not count; and that
// a fraction always selects the same keys, and more of them as it grows.
func TestEnforcement(t *testing.T) {
	with := func(e quota.Enforcement, fraction int64) quota.Limit {
		return ruleOf("l", perHour(2), func(l *quota.Limit) { l.Enforcement, l.Fraction = e, fraction })
	}
	k := key("l", "k")
	g := newOneRange(t, 1, with(quota.Shadow, 0))
	for i := range 5 {
		if d := g.take(0, k, 1); !d.Allowed || d.Shadow != (i >= 2) || i >= 2 && d.Why != quota.WhyOverLimit {
			t.Errorf("shadow, check %d: allowed %v, shadow %v, %v", i, d.Allowed, d.Shadow, d.Why)
		}
	}
	g.settle()
	if got := g.level(k); got > quota.Token/100 || got < 0 {
		t.Errorf("shadow: level %d after 2 that fit and 3 that did not, want 0", got)
	}
	g = newOneRange(t, 1, with(quota.Off, 0))
	for range 5 {
		if d := g.take(0, k, 100); !d.Allowed || d.Why != quota.WhyNotEnforced {
			t.Errorf("off: %v", d.Why)
		}
	}
	if g.members[0].Len() != 0 {
		t.Error("off: counted")
	}

	// A ban only asks whether it applies to the key.
	applies := func(fraction int64) func(key string) bool {
		ban := with(quota.Enforce, fraction)
		ban.Class = quota.Banned
		g := newOneRange(t, 1, ban)
		return func(key string) bool { return !g.checkNow(0, quota.Key{LimitName: ban.LimitName, Key: key}, 1).Shadow }
	}
	const keys = 10_000
	before := make([]bool, keys)
	for _, percent := range []int64{1, 25, 50, 99, 100} {
		inFraction := applies(percent * quota.Million / 100)
		count := 0
		for i := range keys {
			in := inFraction("user-" + strconv.Itoa(i))
			if before[i] && !in {
				t.Fatalf("key %d was enforced at less than %d%% and is not any more", i, percent)
			}
			if before[i] = in; in {
				count++
			}
		}
		if want := keys * int(percent) / 100; count < want-150 || count > want+150 {
			t.Errorf("%d%%: %d of %d keys enforced", percent, count, keys)
		}
	}
	inFraction := applies(quota.Million / 4)
	g = newOneRange(t, 1, with(quota.Enforce, quota.Million/4))
	for i := range 40 {
		k := key("l", "user-"+strconv.Itoa(i))
		g.drain(0, k, 2)
		if d := g.take(0, k, 1); d.Allowed == inFraction(k.Key) || d.Shadow != d.Allowed {
			t.Errorf("%v: allowed %v, shadow %v, in the fraction %v", k, d.Allowed, d.Shadow, inFraction(k.Key))
		}
	}
}

// TestNear checks that decisions are marked from 80 % usage on, or from the limit's own threshold.
func TestNear(t *testing.T) {
	for _, tc := range []struct{ near, from int64 }{{0, 8}, {50, 5}, {90, 9}, {100, 10}} {
		g := newOneRange(t, 1, ruleOf("l", quota.Window(quota.FixedWindow, 10, day), func(l *quota.Limit) { l.Near = tc.near }))
		for i := range int64(12) {
			if d := g.take(0, key("l", "k"), 1); d.Near != (i+1 >= tc.from) {
				t.Errorf("near at %d%%: use %d is marked %v", tc.near, i+1, d.Near)
			}
		}
	}
}
