package console

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/quorate/quorate/internal/phrase"
)

// timeRange is a range of time that a page can show: the last minutes or days, or from one time to
// another.
type timeRange struct {
	Name, Label string // empty if From and To are given
	back, step  time.Duration
	From, To    time.Time
}

// timeRanges are the ranges to choose from; the first is the default. A key's history has no points
// of a second.
var (
	timeRanges = []timeRange{
		{Name: "hour", Label: "Last hour", back: time.Hour, step: time.Minute},
		{Name: "minutes", Label: "Last 10 minutes", back: 10 * time.Minute, step: time.Second},
		{Name: "day", Label: "Last day", back: 24 * time.Hour, step: time.Minute},
		{Name: "month", Label: "Last 30 days", back: 30 * 24 * time.Hour, step: time.Hour},
	}
	keyTimeRanges = []timeRange{timeRanges[0], timeRanges[2], timeRanges[3]}
)

// Bounds of a range that is given by its ends.
const (
	shortestTimeRange = 10 * time.Second
	longestTimeRange  = 200 * 24 * time.Hour
	secondsKept       = 55 * time.Minute // points of a second are kept for an hour
	minutesKept       = 29 * 24 * time.Hour
	timeLayout        = "2006-01-02T15:04:05" // as fields of type datetime-local have it; UTC
)

// timeRangeOf reads the range of an address: from and to, or the name of one of all. Names that are
// unknown mean the first.
func timeRangeOf(r *Request, all []timeRange) (timeRange, error) {
	if r.Query("from") != "" || r.Query("to") != "" {
		return between(r)
	}
	st := all[0]
	for _, s := range all {
		if s.Name == r.Query("range") {
			st = s
		}
	}
	st.To = r.Now()
	st.From = st.To.Add(-st.back)
	return st, nil
}

// between reads a range that is given by its ends. It is made at least as long as a chart needs, and
// ends at the latest now.
func between(r *Request) (timeRange, error) {
	from, err := timeParam(r, "from")
	if err != nil {
		return timeRange{}, err
	}
	to, err := timeParam(r, "to")
	if err != nil {
		return timeRange{}, err
	}
	if !from.Before(to) {
		return timeRange{}, wrongField("to", r.Query("to"), "later than "+from.Format(timeLayout))
	}
	if now := r.Now().UTC().Truncate(time.Second); to.After(now) {
		to = now
	}
	if to.Sub(from) > longestTimeRange {
		from = to.Add(-longestTimeRange)
	}
	if to.Sub(from) < shortestTimeRange {
		from = to.Add(-shortestTimeRange)
	}
	st := timeRange{From: from, To: to, back: to.Sub(from), step: time.Hour}
	switch age := r.Now().Sub(from); {
	case st.back <= 20*time.Minute && age < secondsKept:
		st.step = time.Second
	case st.back <= 60*time.Hour && age < minutesKept:
		st.step = time.Minute
	}
	return st, nil
}

func timeParam(r *Request, name string) (time.Time, error) {
	text := r.Query(name)
	for _, layout := range []string{timeLayout, "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, &Problem{Status: http.StatusBadRequest, Title: "Invalid value", Detail: fmt.Sprintf("%s is %q; must be a time in UTC, such as 2026-11-27T08:30.", name, phrase.Clip(text, 40)), Field: name}
}

// Custom reports whether the range is given by its ends.
func (s timeRange) Custom() bool { return s.Name == "" }

// ends returns the range for a call. A named range has no end, which means now.
func (s timeRange) ends() (from, to *timestamppb.Timestamp) {
	if s.Custom() {
		to = timestamppb.New(s.To)
	}
	return timestamppb.New(s.From), to
}

// params returns the range as parameters of an address.
func (s timeRange) params() []any {
	if s.Custom() {
		return []any{"from", s.From.UTC().Format(timeLayout), "to", s.To.UTC().Format(timeLayout)}
	}
	return []any{"range", s.Name}
}

// timeRangeNav lets readers choose a range: names, fields for both ends, and steps from the range that
// is shown.
type timeRangeNav struct {
	Page, Anchor string
	Fields       []Field // what else the page needs
	Tabs         []navItem
	From, To     string
	Steps        []navItem
	Reset        string // address of the default range; also what a chart's selection is added to
}

// navOf returns the navigation of a page; params are its other parameters in pairs.
func navOf(page, anchor string, now time.Time, st timeRange, all []timeRange, params ...any) (timeRangeNav, error) {
	v := timeRangeNav{Page: page, Anchor: anchor, From: st.From.UTC().Format(timeLayout), To: st.To.UTC().Format(timeLayout)}
	for i := 0; i+1 < len(params); i += 2 {
		v.Fields = append(v.Fields, Field{Name: fmt.Sprint(params[i]), Value: fmt.Sprint(params[i+1]), Type: "hidden"})
	}
	at := func(s timeRange) string {
		to, err := link(page, append(append([]any{}, params...), s.params()...)...)
		if err != nil {
			panic(err) // invariant: the parameters are in pairs
		}
		return to + "#" + url.PathEscape(anchor)
	}
	var err error
	if v.Reset, err = link(page, params...); err != nil {
		return v, err
	}
	for _, s := range all {
		v.Tabs = append(v.Tabs, navItem{s.Label, at(s), s.Name == st.Name})
	}
	if !st.Custom() {
		return v, nil
	}
	move := func(by, wider time.Duration) string {
		return at(timeRange{From: st.From.Add(by - wider), To: st.To.Add(by + wider)})
	}
	v.Steps = []navItem{{Title: "Earlier", Href: move(-st.back/2, 0)}}
	if now.Sub(st.To) > st.back/2 {
		v.Steps = append(v.Steps, navItem{Title: "Later", Href: move(st.back/2, 0)})
	}
	v.Steps = append(v.Steps, navItem{Title: "Zoom out", Href: move(0, st.back/2)}, navItem{Title: "Reset", Href: v.Reset + "#" + url.PathEscape(anchor)})
	return v, nil
}
