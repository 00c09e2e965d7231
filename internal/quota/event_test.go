package quota

import "testing"

func TestEventOf(t *testing.T) {
	for _, c := range []struct {
		d    Decision
		want string
	}{
		{Decision{Allowed: true, Why: WhyHeld}, "tokens_served"},
		{Decision{Allowed: true, Why: WhyReserved, Wait: 1}, "tokens_served"},
		{Decision{Why: WhyWaitTooLong}, "timeout_serving_tokens"},
		{Decision{Why: WhyOverBurst}, "too_many_tokens_requested"},
		{Decision{Why: WhyOverMaxCost}, "too_many_tokens_requested"},
		{Decision{Why: WhyNoLimit}, "bucket_miss"},
		{Decision{Why: WhyOverLimit}, "refused"},
		{Decision{Why: WhyBanned}, "refused"},
	} {
		if got := EventOf(&c.d).String(); got != c.want {
			t.Errorf("%v allowed=%v is %s, want %s", c.d.Why, c.d.Allowed, got, c.want)
		}
	}
	if got := EventKind(200).String(); got != "unknown" {
		t.Errorf("a kind of a newer version is %q", got)
	}
	if n := len(EventKinds()); n != int(EventLimitsChanged) {
		t.Errorf("%d kinds, want %d", n, EventLimitsChanged)
	}
}

func TestEventFilter(t *testing.T) {
	e := Event{Kind: EventServed, Key: Key{LimitName{"web", "login"}, "k"}, Limit: LimitName{"web", Template}}
	for _, c := range []struct {
		f    EventFilter
		want bool
	}{
		{EventFilter{}, true},
		{EventFilter{Namespace: "web", Limit: "login", Key: "k", Kinds: []EventKind{EventMiss, EventServed}}, true},
		{EventFilter{Limit: Template}, true},
		{EventFilter{Namespace: "api"}, false},
		{EventFilter{Limit: "logout"}, false},
		{EventFilter{Key: "j"}, false},
		{EventFilter{Kinds: []EventKind{EventMiss}}, false},
	} {
		if got := c.f.Matches(&e); got != c.want {
			t.Errorf("%+v: %v, want %v", c.f, got, c.want)
		}
	}
}
