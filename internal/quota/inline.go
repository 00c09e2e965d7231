package quota

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Inline is a limit that the caller defines in the request, as other rate-limit protocols do. Its
// name encodes the whole definition, so every node derives the same limit from the name and nothing
// is stored. Names begin with "@inline.", which neither limit files nor our own API accept.
//
// An inline limit has one tier, is enforced, and has default values in all other fields.
type Inline struct {
	Kind     Kind // any but Concurrency
	Rate     Rate // for CalendarWindow only Tokens is used
	Burst    int64
	Calendar CalendarUnit // for CalendarWindow, in UTC
	Ceiling  Ceiling
	Decide   Decide
}

const inlinePrefix = "@inline."

// IsInline reports whether the name encodes an inline limit.
func (n LimitName) IsInline() bool { return strings.HasPrefix(n.Limit, inlinePrefix) }

// Name returns the name that encodes the limit in a namespace, or the error of [Limit.Validate].
func (in Inline) Name(namespace string) (LimitName, error) {
	n := LimitName{namespace, in.words()}
	_, err := n.Inline()
	return n, err
}

// words encodes the limit as, for example, "@inline.bucket.soft.100.60000000000.20". A calendar window has its unit
// in place of the period. Decide is appended, as ".leader", unless it is the default.
func (in Inline) words() string {
	period := strconv.FormatInt(int64(in.Rate.Per), 10)
	if in.Kind == CalendarWindow {
		period = in.Calendar.String()
	}
	words := []string{in.Kind.String(), in.Ceiling.String(), strconv.FormatInt(in.Rate.Tokens, 10), period, strconv.FormatInt(in.Burst, 10)}
	if in.Decide != DecideDefault {
		words = append(words, in.Decide.String())
	}
	return inlinePrefix + strings.Join(words, ".")
}

// Inline decodes an inline limit from its name, or returns an error that describes the name's defect. Only the
// canonical encoding is accepted: equal limits have equal names. Each call returns a new Limit.
func (n LimitName) Inline() (*Limit, error) {
	words, ok := strings.CutPrefix(n.Limit, inlinePrefix)
	parts := strings.Split(words, ".")
	if !ok || len(parts) != 5 && len(parts) != 6 {
		return nil, fmt.Errorf("limit %q: is not an inline limit", n.Limit)
	}
	in, err := readInline(parts)
	if err != nil {
		return nil, fmt.Errorf("limit %q: %w", n.Limit, err)
	}
	if in.words() != n.Limit {
		return nil, fmt.Errorf("limit %q: must be written %q", n.Limit, in.words())
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
		if decide <= 0 {
			return in, fmt.Errorf("unknown decide %q", parts[5])
		}
		in.Decide = Decide(decide)
	}
	tokens, tokensErr := strconv.ParseInt(parts[2], 10, 64)
	burst, burstErr := strconv.ParseInt(parts[4], 10, 64)
	in.Rate.Tokens, in.Burst = tokens, burst
	if in.Kind == CalendarWindow {
		unit := slices.Index(unitWords[:], parts[3])
		if unit < 0 {
			return in, fmt.Errorf("unknown calendar unit %q", parts[3])
		}
		in.Calendar = CalendarUnit(unit)
		in.Rate.Per = in.Calendar.Nominal()
		return in, errors.Join(tokensErr, burstErr)
	}
	per, perErr := strconv.ParseInt(parts[3], 10, 64)
	in.Rate.Per = time.Duration(per)
	return in, errors.Join(tokensErr, burstErr, perErr)
}
