package quota_test

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// separators are the strings that join names somewhere.
var separators = []string{"/", "#", "@", ":", "_", " ", "\x00", "*", "%", "|", ","}

// TestTrapJoinedNames: keys that envoyproxy/ratelimit joins with "_" can collide. Here a name cannot contain a
// separator ("/" between namespace, limit and key, "#" before a tier's number, "@" before reserved names), so that no
// two pairs of names and keys make one string, or one counter.
func TestTrapJoinedNames(t *testing.T) {
	for _, s := range separators {
		if free := quota.CheckName("limit", "a"+s+"b") == nil; free != (s == "_") {
			t.Errorf("%q in a name: allowed %v", s, free)
		}
	}
	hour := quota.Window(quota.FixedWindow, 1, time.Hour)
	var list []quota.Limit
	for _, n := range []string{"a", "a-2", "a.2", "a_2", "a2", "floor", "a-floor"} {
		l := quota.Limit{
			LimitName: quota.LimitName{Namespace: "n", Limit: n}, Rate: quota.Rate{Tokens: 1, Per: time.Second}, Burst: 1,
			More: []quota.Tier{hour, hour}, Parent: "top", FloorBurst: 1, Floor: quota.Rate{Tokens: 1, Per: time.Hour},
		}
		list = append(list, l)
	}
	list = append(list, quota.Limit{LimitName: quota.LimitName{Namespace: "n", Limit: "top"}, Rate: quota.Rate{Tokens: 1, Per: time.Second}, Burst: 9})
	limits, err := quota.NewLimits(1, list)
	if err != nil {
		t.Fatal(err)
	}
	counters := map[quota.LimitName]bool{}
	limits.Meters(func(m *quota.Limit) {
		counters[m.LimitName] = true
		base, _ := m.Base()
		if _, ok := limits.Find(base); !ok {
			t.Errorf("the counter %v belongs to %v, which is no limit", m.LimitName, base)
		}
	})
	if want := 7*4 + 1; len(counters) != want {
		t.Errorf("%d counters, want %d: three tiers and a floor of seven limits, and their parent", len(counters), want)
	}
}

// TestTrapJoinedKeys: two keys have the same parent's key only if they are the same up to the "/" that is cut off, or
// have no "/", or an empty part before it: then the parent's key is WholeKey. Names and keys under a template never
// make the key of another name.
func TestTrapJoinedKeys(t *testing.T) {
	parts := []string{"a", "b", "ab", "a_b", "#", ":", "%2f", " ", "\x00"}
	seen := map[string]string{}
	for _, tenant := range parts {
		for _, user := range parts {
			if got := quota.ParentKey(tenant+"/"+user, 1); got != tenant {
				t.Errorf("%q under %q: counted with %q", user, tenant, got)
			}
			for _, service := range parts {
				k := service + "/" + tenant + "/" + user
				p := quota.ParentKey(k, 1)
				if before, ok := seen[p]; ok && before != service+"|"+tenant {
					t.Errorf("%q and %q have the parent %q", before, k, p)
				}
				seen[p] = service + "|" + tenant
				if p != service+"/"+tenant || quota.ParentKey(k, 2) != service || quota.ParentKey(k, 3) != quota.WholeKey {
					t.Errorf("%q: parents %q, %q, %q", k, p, quota.ParentKey(k, 2), quota.ParentKey(k, 3))
				}
			}
		}
	}
	for _, k := range []string{"a", "*", "/", "/a", "_"} {
		if got := quota.ParentKey(k, 1); got != quota.WholeKey {
			t.Errorf("%q has no parent part, and is counted with %q", k, got)
		}
	}
	template := quota.Limit{LimitName: quota.LimitName{Namespace: "n", Limit: quota.Template}, Rate: quota.Rate{Tokens: 1, Per: time.Second}, Burst: 1}
	limits, err := quota.NewLimits(1, []quota.Limit{template})
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]quota.Key{}
	for _, name := range []string{"a", "b", "a_b", "a.b", "a-b"} {
		for _, s := range separators {
			for _, key := range []string{s, "a" + s, s + "a", "a" + s + "b", "b" + s + "a", "a" + s + "b" + s + "c"} {
				own := quota.Key{LimitName: quota.LimitName{Namespace: "n", Limit: name}, Key: key}
				_, k := limits.Resolve(own.LimitName, key)
				if other, ok := made[k]; ok && other != own {
					t.Errorf("%q and %q are both counted by %q", own, other, k)
				}
				made[k] = own
			}
		}
	}
}

// TestTrapLostEvents: quotaservice sends the event of a server error to a producer that does not exist. Here every
// decision is an event of a kind that watchers can select.
func TestTrapLostEvents(t *testing.T) {
	for _, why := range append(quota.Whys(), quota.WhyUnknown) {
		for _, allowed := range []bool{false, true} {
			kind := quota.EventOf(&quota.Decision{Why: why, Allowed: allowed})
			if kind == quota.EventUnknown || kind.String() == "unknown" {
				t.Errorf("%v, allowed %v: no kind of event", why, allowed)
			}
			if refused := kind != quota.EventServed; refused == allowed && why != quota.WhyNoLimit {
				t.Errorf("%v, allowed %v: is the event %v", why, allowed, kind)
			}
		}
	}
}
