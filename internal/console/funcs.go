package console

import (
	"fmt"
	"html/template"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/quorate/quorate/api/auth"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/audit/words"
	"github.com/quorate/quorate/internal/health"
	"github.com/quorate/quorate/internal/phrase"
)

// funcs returns the functions of templates. Their results are escaped, except that of "time", which
// consists of escaped parts.
func (c *Console) funcs() template.FuncMap {
	return template.FuncMap{
		"static":       c.static,
		"link":         link,
		"num":          num,
		"dec":          dec,
		"part":         part,
		"between":      func(low, high float64) string { return span(dec(low), dec(high)) },
		"betweenParts": func(low, high float64) string { return span(part(low), part(high)) },
		"dur":          dur,
		"bytes":        byteSize,
		"time":         func(v any) template.HTML { return moment(v, c.Now()) },
		"badge":        func(kind, text string) Badge { return Badge{kind, text} },
		"join":         strings.Join,
		"sentence":     sentence,
		"count":        count,
		"clip":         phrase.Clip,
		"add":          func(a, b int) int { return a + b },
		"act":          act,
		"danger":       func(a Act) Act { a.Danger = true; return a },
		"about":        func(text string, a Act) Act { a.About = text; return a },

		"nodeState": nodeState, "clusterState": clusterState, "eventState": eventState, "auditState": auditState, "where": words.Where,
		"auditSentence": words.Sentence,
		"auditRest":     words.Rest,
		"auditDetails":  words.Details,
		"who":           auth.Shown,
		"caller":        caller,
		"callName":      words.Name,
		"callText":      words.Call,
		"word":          func(prefix, s string) string { return enumText(s, prefix) },
		"quotient":      func(a, b int64) float64 { return float64(a) / float64(b) },
		"minus":         func(a, b int64) int64 { return a - b },
		"accountword":   accountWord,
		"plus":          func(a, b int64) int64 { return a + b },
		"rule":          ruleText,
		"enforced":      enforcedText,
		"limitname":     limitTitle,
		"limitlink":     limitLink,
		"unenforced":    unenforcedBadge,
	}
}

// Act is a button that starts a change; see [Action].
type Act struct {
	Path, Label string
	About       string // label for screen readers
	Values      []Field
	Danger      bool
}

// act returns the button of an action (PATH/NAME; the overview's PATH is overview) with values in
// pairs.
func act(path, label string, values ...any) (Act, error) {
	a := Act{Path: Root + "/" + path, Label: label}
	if len(values)%2 != 0 {
		return a, fmt.Errorf("act %s: values come in pairs", path)
	}
	for i := 0; i < len(values); i += 2 {
		a.Values = append(a.Values, Field{Name: fmt.Sprint(values[i]), Value: fmt.Sprint(values[i+1])})
	}
	return a, nil
}

// Pager links to the previous and the next page.
type Pager struct {
	Label, What string // what is paged, and the position in it
	Prev, Next  string // addresses; empty for none
}

// nodeState returns the badge of a node's state.
func nodeState(n *quoratev1.NodeStatus) Badge {
	switch {
	case !n.GetConnected() && n.GetState() == quoratev1.NodeState_NODE_STATE_DRAINING:
		return Badge{"warn", "draining, unreachable"} // it was drained to be stopped
	case !n.GetConnected():
		return Badge{"bad", "unreachable"}
	case len(n.GetFaults()) > 0:
		return Badge{"bad", "faulty"}
	case n.GetState() == quoratev1.NodeState_NODE_STATE_DRAINING:
		return Badge{"warn", "draining"}
	case n.GetState() == quoratev1.NodeState_NODE_STATE_LEAVING:
		return Badge{"warn", "leaving"}
	}
	return Badge{"good", "active"}
}

// clusterState returns the cluster's state as the answering node sees it, in the words of "quorate
// status".
func clusterState(v health.State) Badge {
	kind := "warn"
	switch v.Word {
	case health.Healthy, health.Unreplicated, health.Changing:
		kind = "good"
	case health.NotReady:
		kind = "bad"
	}
	return Badge{kind, strings.ToUpper(v.Word[:1]) + v.Word[1:]}
}

// Badge is a state: a kind (good, warn, bad or idle), which has a shape and a color, and a word.
// Templates show it with {{template "badge" (badge "good" "ready")}}.
type Badge struct{ Kind, Text string }

// link returns the address of a page, with parameters in pairs; empty ones are omitted.
func link(page string, params ...any) (string, error) {
	if len(params)%2 != 0 {
		return "", fmt.Errorf("link %s: parameters come in pairs", page)
	}
	q := url.Values{}
	for i := 0; i < len(params); i += 2 {
		if v := fmt.Sprint(params[i+1]); v != "" {
			q.Set(fmt.Sprint(params[i]), v)
		}
	}
	out := Root + "/" + page
	if len(q) > 0 {
		out += "?" + q.Encode()
	}
	return out, nil
}

// num formats an integer with thousands separators.
func num(v any) string {
	var n int64
	switch v := v.(type) {
	case int:
		n = int64(v)
	case int32:
		n = int64(v)
	case int64:
		n = v
	case uint32:
		n = int64(v)
	case uint64:
		n = int64(min(v, math.MaxInt64))
	case float64:
		n = int64(math.Round(v))
	default:
		return fmt.Sprint(v)
	}
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "\u2212", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// count formats an integer with its noun.
func count(v any, noun string) string {
	n := 2
	if num(v) == "1" {
		n = 1
	}
	_, noun, _ = strings.Cut(phrase.Plural(n, noun), " ")
	return num(v) + " " + noun
}

// dec formats a number with as many decimals as are significant. Only 0 reads as 0.
func dec(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "–"
	case a >= 1000 || v == 0:
		return num(v)
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 1:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a < .0005:
		return nearZero(v, "0.001")
	default:
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
}

// nearZero says that v is between 0 and the smallest number shown.
func nearZero(v float64, smallest string) string {
	if v < 0 {
		return ">-" + smallest
	}
	return "<" + smallest
}

// part formats a fraction in percent. Only 0 reads as 0.
func part(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case a >= .1 || v == 0:
		return num(100*v) + " %"
	case a < .00005:
		return nearZero(v, "0.01 %")
	default:
		return strconv.FormatFloat(100*v, 'f', 2, 64) + " %"
	}
}

// span joins the ends of a range, and returns one value if they read the same.
func span(low, high string) string {
	if low == high {
		return low
	}
	return low + " to " + high
}

// dur formats a duration with reasonable precision.
func dur(v any) string {
	var d time.Duration
	switch v := v.(type) {
	case time.Duration:
		d = v
	case *durationpb.Duration:
		if v == nil {
			return "–"
		}
		d = v.AsDuration()
	default:
		return fmt.Sprint(v)
	}
	switch {
	case d < 10*time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case d < 48*time.Hour:
		return strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(d.Round(time.Second).String())
	}
	return strconv.Itoa(int(d.Hours()/24)) + " days"
}

// byteSize formats a number of bytes; a dash for 0, which is unknown.
func byteSize(n uint64) string {
	if n == 0 {
		return "–"
	}
	return phrase.Bytes(n)
}

// moment formats a time in UTC, with its distance from now as a tooltip.
func moment(v any, now time.Time) template.HTML {
	var t time.Time
	switch v := v.(type) {
	case time.Time:
		t = v
	case *timestamppb.Timestamp:
		if v == nil {
			return "–"
		}
		t = v.AsTime()
	}
	if t.IsZero() {
		return "–"
	}
	t = t.UTC()
	ago := dur(now.Sub(t).Truncate(time.Second)) + " ago"
	if t.After(now) {
		ago = "in " + dur(t.Sub(now).Truncate(time.Second))
	}
	layout := "15:04:05"
	if now.Sub(t).Abs() > 20*time.Hour {
		layout = "2006-01-02 15:04"
	}
	return template.HTML(`<time datetime="` + t.Format(time.RFC3339) + `" title="` + template.HTMLEscapeString(ago) + `">` + t.Format(layout) + `</time>`)
}
