package cluster

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestEventsOfTemplates checks that events of a bucket created from a template have the bucket's name, one event for
// all its tiers, and that a call refused for lack of room for its bucket is an event of a refusal.
func TestEventsOfTemplates(t *testing.T) {
	c := newThreeNodes(t, 1)
	l := limit(quota.Template, 10, quota.Soft)
	l.MaxKeys, l.More = 2, []quota.Tier{l.First()}
	brief := l // its buckets are full again and removed at once
	brief.Namespace, brief.Idle, brief.Rate = "brief", time.Second, quota.Rate{Tokens: 1000, Per: time.Second}
	brief.More = []quota.Tier{brief.First()}
	c.apply(l, brief)
	n := c.running()[0]
	events, _, stop := n.Watch(quota.EventFilter{Namespace: "test"}, 0)
	defer stop()
	next := func(kind quota.EventKind, bucket string) {
		t.Helper()
		select {
		case e := <-events:
			if e.Kind != kind || e.Bucket() != bucket || e.Limit.Limit != quota.Template || !e.Dynamic {
				t.Errorf("%v of %q, decided by %v, dynamic %v; want %v of %q", e.Kind, e.Bucket(), e.Limit, e.Dynamic, kind, bucket)
			}
		case <-time.After(patience):
			t.Fatalf("no event; want %v of %q", kind, bucket)
		}
	}
	ask := func(k quota.Key, needs bool) bool {
		var out [1]quota.Decision
		return n.Decide([]quota.Request{{Key: k, Cost: 1, MaxWait: quota.LimitsWait, NeedsBucket: needs}}, out[:])
	}
	for _, b := range []struct {
		key  quota.Key
		name string
	}{
		{key("test", "bob", quota.WholeKey), "bob"},
		{key("test", quota.Template, "/10.0.0.0/8/*"), "10.0.0.0/8"},
	} {
		if !ask(b.key, true) {
			t.Errorf("%v is refused", b.key)
		}
		next(quota.EventCreated, b.name)
		next(quota.EventServed, b.name)
	}
	if ask(key("test", "eve", quota.WholeKey), true) {
		t.Error("a third of two buckets")
	}
	next(quota.EventRefused, "eve")
	if !ask(key("test", "eve", quota.WholeKey), false) {
		t.Error("a soft limit refuses who needs no bucket")
	}
	next(quota.EventCreated, "@overflow")
	next(quota.EventServed, "eve")

	stop()
	events, _, stop = n.Watch(quota.EventFilter{Namespace: "brief"}, 0)
	defer stop()
	if !ask(key("brief", "bob", quota.WholeKey), true) {
		t.Error("refused")
	}
	next(quota.EventCreated, "bob")
	next(quota.EventServed, "bob")
	next(quota.EventRemoved, "bob")
	if !ask(key("brief", "bob", quota.WholeKey), true) {
		t.Error("refused")
	}
	next(quota.EventCreated, "bob")
	next(quota.EventServed, "bob")
}
