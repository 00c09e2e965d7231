package quota

import (
	"slices"
	"strings"
	"time"
)

// EventKind is what happened. The words are part of the API.
type EventKind uint8

// The kinds of events. The first six are those of square/quotaservice.
const (
	EventUnknown       EventKind = iota
	EventServed                  // tokens were served, at once or with a wait
	EventTimeout                 // refused: it would have to wait longer than it may
	EventTooMany                 // refused for ever: more than one request may take
	EventMiss                    // there is no such limit
	EventCreated                 // a bucket was made for a key
	EventRemoved                 // a bucket was let go
	EventRefused                 // refused: the limit is used up, banned, or undecided under hard
	EventLimitsChanged           // a new version of the limits is in force on this node
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

// EventOf returns the kind of event that a decision is.
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

// Event is one thing that happened on a node.
type Event struct {
	At   Time // wall clock of the node
	Kind EventKind
	// Key is what the caller named; Limit is what decided: perhaps a template or a
	// default. Both are empty for EventLimitsChanged.
	Key     Key
	Limit   LimitName
	Dynamic bool  // the bucket was made from a template
	Cost    int64 // tokens that were asked for
	Wait    time.Duration
	Why     Why
	// As in Decision.
	Shadow, Near bool
}

// Bucket returns the limit name that the caller used: for a bucket made from a template the
// bucket's own name.
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

// EventFilter chooses events. What is empty is not looked at.
type EventFilter struct {
	Namespace string
	Limit     string // as the caller named it, or what decided
	Key       string
	Kinds     []EventKind
}

// Matches reports whether the filter lets the event through.
func (f *EventFilter) Matches(e *Event) bool {
	return (f.Namespace == "" || f.Namespace == e.Key.Namespace || f.Namespace == e.Limit.Namespace) &&
		(f.Limit == "" || f.Limit == e.Key.Limit || f.Limit == e.Limit.Limit || f.Limit == e.Bucket()) &&
		(f.Key == "" || f.Key == e.Key.Key) &&
		(len(f.Kinds) == 0 || slices.Contains(f.Kinds, e.Kind))
}
