package console

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/rbac"
)

const keysOnPage = 50

// keyPage is the data of the page of one key, or of a search for keys.
type keyPage struct {
	Namespace, Limit, Key string
	Search                string
	Found                 *quoratev1.TopRatesResponse
	NoFound               *Problem
	Next                  string
	Counters              []keyCounter
	Override              *quoratev1.Override
	MayReset, MayWrite    bool
	Inline                bool // the caller of the limit defined it: there are no history, events or overrides
	Names                 names
	Past                  *past  // nil while live
	Events                string // address of the stream of its decisions; empty without permission
}

// keyCounter is one bucket of a key.
type keyCounter struct {
	*quoratev1.KeyRate
	Debt int64   // tokens
	Full float64 // remaining fraction of the burst, 0 to 1
}

// Own reports whether the counter belongs to the limit itself, not to a parent.
func (k keyCounter) Own(limit string) bool {
	base, _, _ := strings.Cut(k.Limit, "#")
	return base == limit || strings.HasPrefix(limit, "@")
}

func keyPageOf() Page {
	return Page{
		Path: "key", Title: "Keys", Group: "Limits", Template: "key", Need: rbac.KeysRead, Load: loadKey, Live: []string{"level"},
		Actions: map[string]Action{"reset": resetKey, "override": setOverride, "clear": clearOverride},
	}
}

func loadKey(r *Request) (any, error) {
	k := &keyPage{Namespace: r.Query("namespace"), Limit: r.Query("limit"), Key: r.URL.Query().Get("key"), Search: r.URL.Query().Get("q"), MayReset: r.May(rbac.KeysReset), MayWrite: r.May(rbac.LimitsWrite)}
	k.Names = namesFor(r, k.Namespace)
	if k.Namespace == "" || k.Limit == "" || k.Key == "" {
		k.find(r)
		return k, nil
	}
	res, err := r.Keys.GetKey(r.Context(), &quoratev1.GetKeyRequest{Namespace: k.Namespace, Limit: k.Limit, Key: k.Key})
	if err != nil {
		return nil, err
	}
	for _, c := range res.Counters {
		one := keyCounter{KeyRate: c, Debt: max(0, -c.Remaining)}
		if c.Rule.GetBurst() > 0 {
			one.Full = max(0, min(1, float64(c.Remaining)/float64(c.Rule.Burst)))
		}
		k.Counters = append(k.Counters, one)
	}
	k.Override, k.Inline = res.Override, inlineLimit(k.Namespace, k.Limit) != nil
	if isLive(r) || k.Inline {
		return k, nil
	}
	if r.May(rbac.EventsRead) {
		if k.Events, err = link("live/events", "namespace", k.Namespace, "limit", k.Limit, "key", k.Key); err != nil {
			return nil, err
		}
	}
	k.Past, err = loadPast(r, k.Namespace, k.Limit, k.Key)
	return k, err
}

// find lists the active keys that begin with the search text.
func (k *keyPage) find(r *Request) {
	res, err := r.Rates.TopRates(r.Context(), &quoratev1.TopRatesRequest{Namespace: k.Namespace, Limit: k.Limit, KeyPrefix: k.Search, Top: keysOnPage, PageToken: r.Query("after")})
	if err != nil {
		k.NoFound = problemOf(err)
		return
	}
	k.Found = res
	if res.NextPageToken != "" {
		k.Next, _ = link("key", "namespace", k.Namespace, "limit", k.Limit, "q", k.Search, "after", res.NextPageToken)
	}
}

// keyName returns the key and its limit for people.
func keyName(r *Request) string {
	return phrase.Clip(r.PostForm.Get("key"), 80) + " of " + limitTitle(r.PostForm.Get("namespace"), r.PostForm.Get("limit"))
}

func keyLink(r *Request) string {
	to, err := link("key", "namespace", r.PostForm.Get("namespace"), "limit", r.PostForm.Get("limit"), "key", r.PostForm.Get("key"))
	if err != nil {
		panic(err) // invariant: the parameters are in pairs
	}
	return to
}

// resetKey refills a key.
var resetKey = Action{
	Confirm: func(r *Request) (*Confirmation, error) {
		return &Confirmation{
			Title: "Reset the key " + keyName(r), Button: "Reset the key", Danger: true, Fields: Hidden(r, "namespace", "limit", "key"),
			Will: []string{"All its buckets become full: its caller can spend the whole burst at once.", "Its debt and reservations are deleted. Parents and other keys do not change."},
		}, nil
	},
	Do: func(r *Request) (*Result, error) {
		_, err := r.Keys.ResetKey(r.Context(), &quoratev1.ResetKeyRequest{Namespace: r.PostForm.Get("namespace"), Limit: r.PostForm.Get("limit"), Key: r.PostForm.Get("key")})
		if err != nil {
			return nil, err
		}
		return &Result{Title: "Key reset", Lines: []string{"The key " + keyName(r) + " is full on all nodes, without debt."}, Next: keyLink(r), NextLabel: "Back to the key"}, nil
	},
}

// setOverride sets an override of a key.
var setOverride = Action{
	Confirm: func(r *Request) (*Confirmation, error) {
		form := func(name string) string { return r.PostForm.Get(name) }
		return &Confirmation{
			Title: "Override the rule of " + keyName(r), Button: "Set the override",
			Will: []string{"Set at least one of class, rate, burst and factor; empty fields keep the limit's value. Level and debt do not change."},
			Fields: append(
				Hidden(r, "namespace", "limit", "key"),
				Field{Name: "class", Label: "Class", Type: "select", Value: form("class"), Options: []Option{{"", "the limit's"}, {"counted", "counted"}, {"unlimited", "unlimited: everything passes"}, {"banned", "banned: nothing passes"}}},
				Field{Name: "rate", Label: "Rate", Type: "text", Value: form("rate"), Hint: "Such as 20/s."},
				Field{Name: "burst", Label: "Burst", Type: "number", Value: form("burst")},
				Field{Name: "scale", Label: "Factor", Type: "text", Value: form("scale"), Hint: "Multiplies every tier: 1.5 is 50 % more."},
				Field{Name: "expires", Label: "Expires after", Type: "text", Value: form("expires"), Hint: "Such as 30m, 12h or 7d. Empty: never."},
				commentField(r),
			),
		}, nil
	},
	Do: func(r *Request) (*Result, error) {
		o, err := readOverride(r)
		if err != nil {
			return nil, err
		}
		if _, err := r.API.Overrides.SetOverrides(r.Context(), &quoratev1.SetOverridesRequest{Overrides: []*quoratev1.Override{o}}); err != nil {
			return nil, err
		}
		return &Result{Title: "Override set", Lines: []string{"All nodes apply it within a second."}, Next: keyLink(r), NextLabel: "Back to the key"}, nil
	},
}

var classWords = map[string]quoratev1.Class{
	"": quoratev1.Class_CLASS_UNSPECIFIED, "counted": quoratev1.Class_CLASS_COUNTED,
	"unlimited": quoratev1.Class_CLASS_UNLIMITED, "banned": quoratev1.Class_CLASS_BANNED,
}

// readOverride parses the form; the API validates the values.
func readOverride(r *Request) (*quoratev1.Override, error) {
	form := func(name string) string { return strings.TrimSpace(r.PostForm.Get(name)) }
	o := &quoratev1.Override{Namespace: form("namespace"), Limit: form("limit"), Key: r.PostForm.Get("key"), Class: classWords[form("class")], Rate: form("rate"), Comment: form("comment")}
	if text := form("burst"); text != "" {
		burst, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, wrongField("burst", text, "a whole number, such as 40")
		}
		o.Burst = &burst
	}
	if text := form("scale"); text != "" {
		scale, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, wrongField("scale", text, "a number, such as 1.5")
		}
		o.Scale = scale
	}
	if text := form("expires"); text != "" {
		d, err := daysOr(text)
		if err != nil || d <= 0 {
			return nil, wrongField("expires", text, "a duration above 0, such as 30m, 12h or 7d")
		}
		o.Expires = timestamppb.New(r.Now().Add(d))
	}
	return o, nil
}

// daysOr parses a duration, optionally in days.
func daysOr(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseFloat(days, 64)
		if err != nil || n > 36_500 {
			return 0, fmt.Errorf("%q days: must be a number up to 36500", days)
		}
		return time.Duration(n * float64(24*time.Hour)), nil
	}
	return time.ParseDuration(text)
}

func wrongField(name, text, right string) *Problem {
	return &Problem{Status: http.StatusBadRequest, Title: "Invalid value", Detail: fmt.Sprintf("%q must be %s.", phrase.Clip(text, 60), right), Field: name}
}

// clearOverride deletes an override of a key.
var clearOverride = Action{
	Confirm: func(r *Request) (*Confirmation, error) {
		return &Confirmation{
			Title: "Delete the override of " + keyName(r), Button: "Delete the override", Danger: true, Fields: Hidden(r, "namespace", "limit", "key"),
			Will: []string{"The limit's own rule applies to the key again. Level and debt do not change."},
		}, nil
	},
	Do: func(r *Request) (*Result, error) {
		ref := &quoratev1.KeyRef{Namespace: r.PostForm.Get("namespace"), Limit: r.PostForm.Get("limit"), Key: r.PostForm.Get("key")}
		res, err := r.API.Overrides.DeleteOverrides(r.Context(), &quoratev1.DeleteOverridesRequest{Keys: []*quoratev1.KeyRef{ref}})
		if err != nil {
			return nil, err
		}
		out := &Result{Title: "Override deleted", Lines: []string{"All nodes apply it within a second."}, Next: keyLink(r), NextLabel: "Back to the key"}
		if res.Deleted == 0 {
			out.Title, out.Lines = "Nothing to delete", []string{"The key had no override."}
		}
		return out, nil
	},
}
