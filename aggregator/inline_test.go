package aggregator

import (
	"strconv"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestInline: a limit that arrives with a request has an entry when it is first looked up, and loses it when it is
// not used.
func TestInline(t *testing.T) {
	now := quota.Time(time.Hour)
	clock := func() quota.Time { return now }
	a := New(Config{Self: "n1", Incarnation: 1, Ranges: 1}, now)
	named := func(namespace string, burst int64) quota.LimitName {
		n, err := quota.Inline{Rate: quota.Rate{Tokens: 1, Per: time.Minute}, Burst: burst}.Name(namespace)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	name := func(burst int64) quota.LimitName { return named("guests", burst) }
	for range 2 { // without limits, and with some that do not change it
		d := a.checkNow(clock, name(3), "k", 1)
		if d.Limit == nil || d.Limit.Burst != 3 || d.Why == quota.WhyNoLimit {
			t.Fatalf("%+v", d)
		}
		set, err := quota.NewLimits(1, nil)
		if err != nil {
			t.Fatal(err)
		}
		a.SetLimits(now, set)
	}
	if d := a.checkNow(clock, quota.LimitName{Namespace: "guests", Limit: "@inline.nonsense"}, "k", 1); d.Why != quota.WhyNoLimit {
		t.Errorf("nonsense: %+v", d)
	}
	a.Sweep(now)
	a.Sweep(now)
	if n := a.table.inline.entries.Size(); n != 1 { // it has a key
		t.Errorf("%d inline limits are left when nobody asks; want 1", n)
	}
}

// TestInlineShares: callers share the room for the limits that their requests carry: each gets seven eighths of what it
// finds, in whatever namespaces. Where callers are not known, namespaces share it. Limits that no request carries find all
// of the room that is left. Everything is given back.
func TestInlineShares(t *testing.T) {
	now := quota.Time(time.Hour)
	one := func(name string) func(int) string { return func(int) string { return name } }
	for what, c := range map[string]struct {
		namespace, owner func(i int) string
		shared           bool // the second is the first
	}{
		"callers in one namespace": {one("guests"), strconv.Itoa, false},
		"one caller in namespaces": {strconv.Itoa, one("ann"), true},
		"callers in namespaces":    {strconv.Itoa, strconv.Itoa, false},
		"unknown in namespaces":    {strconv.Itoa, one(""), false},
		"unknown in one namespace": {one("guests"), one(""), true},
	} {
		t.Run(what, func(t *testing.T) {
			a := New(Config{Self: "n1", Incarnation: 1, Ranges: 1}, now)
			in := &a.table.inline
			burst := int64(0)
			named := func(namespace string) quota.LimitName {
				burst++
				n, err := quota.Inline{Rate: quota.Rate{Tokens: 1, Per: time.Minute}, Burst: burst}.Name(namespace)
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
			free := maxInline
			for i := range 2 {
				got, want := 0, (free*7+7)/8
				if i == 1 && c.shared {
					want = 0
				}
				for range maxInline + 10 {
					if a.AdmitInline(named(c.namespace(i)), c.owner(i)) {
						got++
					}
				}
				if got != want {
					t.Errorf("number %d gets %d of %d; want %d", i, got, free, want)
				}
				free -= got
			}
			for i := range free {
				if d := a.checkNow(func() quota.Time { return now }, named("files"), "k", 1); d.Limit == nil {
					t.Fatalf("limits that no request carries have %d of %d places", i, free)
				}
			}
			if name := named("more"); a.AdmitInline(name, "bob") || a.checkNow(func() quota.Time { return now }, name, "k", 1).Limit != nil {
				t.Error("there is room beyond the bound")
			}
			for range 2 {
				a.Sweep(now)
			}
			if n, left := in.places.Held(), in.entries.Size(); n != int64(free) || left != free {
				t.Errorf("%d places are held, %d limits are left; want %d, those with keys", n, left, free)
			}
		})
	}
}

// TestInlineOwnerKeepsPlace: a caller that asks again for a limit takes no second place, and neither does another that
// sends the same numbers: the limit is the first one's.
func TestInlineOwnerKeepsPlace(t *testing.T) {
	now := quota.Time(time.Hour)
	a := New(Config{Self: "n1", Incarnation: 1, Ranges: 1}, now)
	n, err := quota.Inline{Rate: quota.Rate{Tokens: 1, Per: time.Minute}, Burst: 1}.Name("guests")
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if !a.AdmitInline(n, "ann") || !a.AdmitInline(n, "bob") {
			t.Fatal("there is no room")
		}
		if held := a.table.inline.places.Held(); held != 1 {
			t.Fatalf("%d places for one limit", held)
		}
		if s := a.table.inline.find(n); s.owner != "ann" {
			t.Fatalf("the owner is %q", s.owner)
		}
		a.Sweep(now)
	}
	a.Sweep(now)
	if held := a.table.inline.places.Held(); held != 0 {
		t.Errorf("%d places are held when nobody asks", held)
	}
	if a.AdmitInline(quota.LimitName{Namespace: "guests", Limit: "@inline.nonsense"}, "ann") || a.table.inline.places.Held() != 0 {
		t.Error("a name that is no limit has a place")
	}
}
