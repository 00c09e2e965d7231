package render

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/quorate/quorate/api/apijson"
	"github.com/quorate/quorate/internal/phrase"
)

// FileSize returns the size of a regular file, or 0.
func FileSize(name string) int64 {
	st, err := os.Stat(name)
	if err != nil || !st.Mode().IsRegular() {
		return 0
	}
	return st.Size()
}

// TokenRate formats tokens per second in a few characters.
func TokenRate(v float64) string {
	if v >= 100 || v == math.Trunc(v) {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// Percent returns part in percent of whole. If whole is 0 it divides by 1, so that the result stays
// a number.
func Percent(part, whole int64) float64 {
	return 100 * float64(part) / float64(max(whole, 1))
}

// Millis converts microseconds to milliseconds.
func Millis(us int64) float64 { return float64(us) / 1000 }

// NeedlessText formats needless refusals as a range: leaders do not see every moment, so only a
// lower and an upper bound are known.
func NeedlessText(r Refusals) string {
	least, most := r.GetNeedlessRefusals(), r.GetNeedlessRefusalsAtMost()
	if most <= least {
		return TokenRate(least)
	}
	return TokenRate(least) + " to " + TokenRate(most)
}

// Words formats counts by word, largest first.
func Words(m map[string]int64) string {
	type count struct {
		word string
		n    int64
	}
	var all []count
	for w, n := range m {
		all = append(all, count{w, n})
	}
	slices.SortFunc(all, func(a, b count) int { return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.word, b.word)) })
	parts := make([]string, len(all))
	for i, c := range all {
		parts[i] = fmt.Sprintf("%s %d", c.word, c.n)
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ", ")
}

// Names formats node ids.
func Names(ids []string) string {
	if len(ids) == 0 {
		return "-"
	}
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = phrase.Show(id)
	}
	return strings.Join(out, " ")
}

// OrDash returns s, or a dash if s is empty.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return phrase.Show(s)
}

// Refusals returns bounds on the needless refusals, in tokens. Leaders do not see every moment, so
// only two bounds are known.
type Refusals interface {
	GetNeedlessRefusals() float64
	GetNeedlessRefusalsAtMost() float64
}

// Word returns an enum's word in limit files and JSON, such as soft for CEILING_SOFT.
func Word(e protoreflect.Enum) string { return apijson.EnumWord(e) }

// When formats a moment in UTC, to the second.
func When(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return t.AsTime().UTC().Format("2006-01-02T15:04:05Z")
}

// Pause formats a duration of an answer as Span does.
func Pause(d *durationpb.Duration) string { return Span(d.AsDuration()) }

// Span formats a duration to the millisecond without zero parts: 1h30m, 2.5s.
func Span(d time.Duration) string { return phrase.Span(d.Round(time.Millisecond)) }
