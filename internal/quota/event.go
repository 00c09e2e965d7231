package quota

import (
	"slices"
	"strings"
	"time"
)

// EventKind is the kind of an event. Its words are part of the API.
type EventKind uint8

// The kinds of events. The first six are those of square/quotaservice.
const (
	EventUnknown       EventKind = iota
	EventServed                  // tokens were granted, at once or after a wait
	EventTimeout                 // refused: the wait would exceed the caller's or the limit's maximum
	EventTooMany                 // refused for good: the cost exceeds the largest that can ever pass
	EventMiss                    // no limit matches
	EventCreated                 // a bucket was created for a key
	EventRemoved                 // a bucket was removed
	EventRefused                 // refused: over the limit, banned, or undecidable under hard
	EventLimitsChanged           // the node applies a new version of the limits
)

var eventWords = [...]string{
	"unknown", "tokens_served", "timeout_serving_tokens", "too_many_tokens_requested", "bucket_miss",
	"bucket_created", "bucket_removed", "refused", "limits_changed",
}

// String returns the word used in JSON, logs and metrics.
func (k EventKind) String() string { return word(eventWords[:], uint8(k)) }

// EventKinds returns all kinds.
func EventKinds() []EventKind {
	out := make([]EventKind, 0, len(eventWords)-1)
	for k := range eventWords[1:] {
		out = append(out, EventKind(k+1))
	}
	return out
}

// EventOf returns the kind of event that describes a decision.
func EventOf(d *Decision) EventKind {
	switch {
	case d.Why == WhyNoLimit:
		return EventMiss
	case d.Allowed:
		return EventServed
	case d.Why == WhyWaitTooLong:
		return EventTimeout
	case d.Why == WhyOverBurst || d.Why == WhyOverMaxCost:
		return EventTooMany
	}
	return EventRefused
}

// Event records one decision, bucket change or limits change on a node.
type Event struct {
	At   Time // wall clock of the node
	Kind EventKind
	// Key is the name in the request; Limit is the rule that decided, which may be a template or a default. Both are
	// empty for EventLimitsChanged.
	Key     Key
	Limit   LimitName
	Dynamic bool  // the bucket was made from a template
	Cost    int64 // tokens requested
	Wait    time.Duration
	Why     Why
	// Shadow and Near are as in Decision.
	Shadow, Near bool
}

// Bucket returns the limit name that the caller used. For a bucket made from a template that is the
// first part of the key, not the template's name.
func (e *Event) Bucket() string {
	if e.Key.Limit == Template {
		name, _ := SplitTemplateKey(e.Key.Key)
		return name
	}
	return e.Key.Limit
}

// SplitTemplateKey splits the key of a template's bucket into the caller's limit name and key. A
// name that is not valid for a limit is encoded as name/*, or as /name/* where name/* would be ambiguous.
func SplitTemplateKey(key string) (name, rest string) {
	const whole = "/" + WholeKey
	if name, ok := strings.CutPrefix(key, "/"); ok {
		return strings.TrimSuffix(name, whole), WholeKey
	}
	if name, rest, ok := strings.Cut(key, "/"); ok && CheckName("", name) == nil {
		return name, rest
	}
	return strings.TrimSuffix(key, whole), WholeKey
}

// EventFilter selects events. An empty field matches everything.
type EventFilter struct {
	Namespace string
	Limit     string // the name that the caller used, or that of the deciding rule
	Key       string
	Kinds     []EventKind
}

// Matches reports whether the event passes the filter.
func (f *EventFilter) Matches(e *Event) bool {
	return (f.Namespace == "" || f.Namespace == e.Key.Namespace || f.Namespace == e.Limit.Namespace) &&
		(f.Limit == "" || f.Limit == e.Key.Limit || f.Limit == e.Limit.Limit || f.Limit == e.Bucket()) &&
		(f.Key == "" || f.Key == e.Key.Key) &&
		(len(f.Kinds) == 0 || slices.Contains(f.Kinds, e.Kind))
}
