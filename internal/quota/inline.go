package quota

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Inline is a limit that a caller brings along, as other protocols have it: its name
// says all of it, so every node makes the same limit out of the name, and no log has
// to hold it. Names begin with "@inline.", which no limit file and no caller of our
// own API can say.
//
// It is a limit of one tier that is enforced and follows the defaults in all that is
// not here.
type Inline struct {
	Kind     Kind // not Concurrency
	Rate     Rate // of CalendarWindow only Tokens
	Burst    int64
	Calendar CalendarUnit // of CalendarWindow, in UTC
	Ceiling  Ceiling
	Decide   Decide
}

const inlinePrefix = "@inline."

// IsInline reports whether the name is of a limit that a caller brought along.
func (n LimitName) IsInline() bool { return strings.HasPrefix(n.Limit, inlinePrefix) }

// Name returns the name of the limit in a namespace, or why there can be none: what
// [Limit.Validate] says.
func (in Inline) Name(namespace string) (LimitName, error) {
	n := LimitName{namespace, in.words()}
	_, err := n.Inline()
	return n, err
}

// words returns a name such as "@inline.bucket.soft.100.60000000000.20". Calendar windows have their
// unit in place of the period. ".leader" follows if the leader decides.
func (in Inline) words() string {
	period := strconv.FormatInt(int64(in.Rate.Per), 10)
	if in.Kind == CalendarWindow {
		period = in.Calendar.String()
	}
	words := []string{in.Kind.String(), in.Ceiling.String(), strconv.FormatInt(in.Rate.Tokens, 10), period, strconv.FormatInt(in.Burst, 10)}
	if in.Decide != Locally {
		words = append(words, in.Decide.String())
	}
	return inlinePrefix + strings.Join(words, ".")
}

// Inline returns the limit of such a name, or what is wrong with it. The same limit
// has one name only. It is made anew each time.
func (n LimitName) Inline() (*Limit, error) {
	words, ok := strings.CutPrefix(n.Limit, inlinePrefix)
	parts := strings.Split(words, ".")
	if !ok || len(parts) != 5 && len(parts) != 6 {
		return nil, fmt.Errorf("limit %q: is no inline limit", n.Limit)
	}
	in, err := readInline(parts)
	if err != nil {
		return nil, fmt.Errorf("limit %q: %w", n.Limit, err)
	}
	if in.words() != n.Limit {
		return nil, fmt.Errorf("limit %q: is written %q", n.Limit, in.words())
	}
	l := &Limit{LimitName: n, Kind: in.Kind, Rate: in.Rate, Burst: in.Burst, Calendar: Calendar{Unit: in.Calendar}, Ceiling: in.Ceiling, Decide: in.Decide}
	errs := []error{CheckName("namespace", n.Namespace)}
	first := l.First()
	first.validate(func(err error) { errs = append(errs, err) })
	return l, errors.Join(errs...)
}

func readInline(parts []string) (in Inline, err error) {
	kind := slices.IndexFunc(Kinds(), func(k Kind) bool { return k.String() == parts[0] && k != Concurrency })
	if kind < 0 {
		return in, fmt.Errorf("unknown kind %q", parts[0])
	}
	in.Kind = Kind(kind)
	if in.Ceiling, err = ParseCeiling(parts[1]); err != nil {
		return in, err
	}
	if len(parts) == 6 {
		decide := slices.Index(decideWords[:], parts[5])
		if decide < 0 {
			return in, fmt.Errorf("%q is no place of decisions", parts[5])
		}
		in.Decide = Decide(decide)
	}
	tokens, tokensErr := strconv.ParseInt(parts[2], 10, 64)
	burst, burstErr := strconv.ParseInt(parts[4], 10, 64)
	in.Rate.Tokens, in.Burst = tokens, burst
	if in.Kind == CalendarWindow {
		unit := slices.Index(unitWords[:], parts[3])
		if unit < 0 {
			return in, fmt.Errorf("%q is no unit of calendars", parts[3])
		}
		in.Calendar = CalendarUnit(unit)
		in.Rate.Per = in.Calendar.Nominal()
		return in, errors.Join(tokensErr, burstErr)
	}
	per, perErr := strconv.ParseInt(parts[3], 10, 64)
	in.Rate.Per = time.Duration(per)
	return in, errors.Join(tokensErr, burstErr, perErr)
}
