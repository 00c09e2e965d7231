package config

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/zone"
)

// The scalars below occur in limit files, but not in node settings.

// rate reads tokens per period.
func rate(to *quota.Rate) scalar {
	want := "tokens/period, such as 10/s, 5/m or 100/10s"
	return scalar{want: want, set: func(text string) error {
		r, err := quota.ParseRate(text)
		if err != nil {
			why, ok := strings.CutPrefix(err.Error(), "rate "+strconv.Quote(text)+": ")
			if !ok || len(text) > clipAt {
				why = "must be " + want
			}
			return fmt.Errorf("is %s; %s", clip(text), why)
		}
		if r.PerSecond() > quota.FromTokens(quota.MaxTokens) {
			return fmt.Errorf("is %s; must be at most %d/s", clip(text), quota.MaxTokens)
		}
		*to = r
		return nil
	}}
}

// pause reads a duration, optionally in days or weeks: 10s, 1h30m, 1d, 2w.
func pause(to *time.Duration, low time.Duration) scalar {
	want := fmt.Sprintf("a duration such as 10s, 90m, 1d or 1w, from %s to %s", formatPause(low), formatPause(quota.MaxPause))
	return parsed(to, want, func(text string) (time.Duration, bool) {
		v, err := parsePause(text)
		return v, err == nil && v >= low && v <= quota.MaxPause
	})
}

// parsePause parses a duration in Go's form, or in whole days or weeks.
func parsePause(text string) (time.Duration, error) {
	for suffix, days := range map[string]uint64{"d": 1, "w": 7} {
		digits, ok := strings.CutSuffix(text, suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 32)
		if err != nil || n > math.MaxInt64/(days*uint64(24*time.Hour)) {
			return 0, errors.New("too long")
		}
		return time.Duration(n*days) * 24 * time.Hour, nil
	}
	return time.ParseDuration(text)
}

// formatPause formats a duration for parsePause, in the largest unit that divides it.
func formatPause(d time.Duration) string {
	const week = 7 * 24 * time.Hour
	if d > 0 && d%week == 0 {
		return strconv.FormatInt(int64(d/week), 10) + "w"
	}
	return phrase.Days(d)
}

// boolean reads true or false.
func boolean(to *bool) scalar {
	return parsed(to, "true or false", func(text string) (bool, bool) {
		return text == "true", text == "true" || text == "false"
	}).plain()
}

// onlyTrue reads a field whose only valid value is true.
func onlyTrue() scalar {
	return matching(new(string), "true, or left out", func(text string) bool { return text == "true" }).plain()
}

// decimal matches a number with up to six decimal places.
var decimal = regexp.MustCompile(`^([0-9]{1,12})(?:\.([0-9]{1,6}))?$`)

// parts parses a decimal number and returns its product with one, if that is a whole number.
func parts(text string, one int64) (int64, bool) {
	m := decimal.FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(m[1]+(m[2] + "000000")[:6], 10, 64) // millionths
	if err != nil || n > quota.MaxScale*100 {
		return 0, false
	}
	if n%(quota.Million/one) != 0 {
		return 0, false
	}
	return n / (quota.Million / one), true
}

// formatParts formats n/one as a decimal number.
func formatParts(n, one int64) string {
	s := strconv.FormatInt(n/one, 10)
	if rest := n % one; rest > 0 {
		digits := strconv.FormatInt(one+rest, 10)[1:]
		s += "." + strings.TrimRight(digits, "0")
	}
	return s
}

// percent reads a percentage above 0% and up to 100%, in parts per million.
func percent(to *int64) scalar {
	want := "a percentage above 0% up to 100%, such as 25% or 0.5%"
	return scalar{want: want, set: func(text string) error {
		digits, ok := strings.CutSuffix(text, "%")
		n, exact := parts(digits, quota.Million/100)
		switch {
		case ok && exact && n == 0:
			return fmt.Errorf("is %s, which enforces nothing; write enforcement: shadow, or a fraction above 0%%", clip(text))
		case !ok || !exact || n > quota.Million:
			return Wrong(text, want)
		}
		*to = n
		return nil
	}}
}

// near reads the percentage of use at which a limit counts as nearly used up.
func near(to *int64) scalar {
	return parsed(to, "a whole percentage from 1% to 100%, such as 90%", func(text string) (n int64, ok bool) {
		digits, percent := strings.CutSuffix(text, "%")
		ok = whole(&n, 1, 100).set(digits) == nil && percent
		return n, ok
	})
}

// scale reads a factor, as 2.5x or 250%, in parts per million.
func scale(to *int64) scalar {
	want := "a factor above 0, such as 2.5x or 250%, at most " + strconv.Itoa(quota.MaxScale/quota.Million) + "x"
	return parsed(to, want, func(text string) (n int64, ok bool) {
		if digits, x := strings.CutSuffix(text, "x"); x {
			n, ok = parts(digits, quota.Million)
		} else if digits, per := strings.CutSuffix(text, "%"); per {
			n, ok = parts(digits, quota.Million/100)
		}
		return n, ok && n >= 1 && n <= quota.MaxScale
	})
}

// timeZone reads the name of a time zone.
func timeZone(to **time.Location) scalar {
	return parsed(to, "an IANA time zone, such as UTC, Europe/Berlin or America/New_York", func(text string) (*time.Location, bool) {
		l, err := zone.Load(text)
		return l, err == nil && text != ""
	})
}

// limitName reads the name of a limit.
func limitName(to *string) scalar {
	return matching(to, "the name of a limit: "+nameWant, func(text string) bool { return quota.CheckName("", text) == nil })
}

// pathPattern reads the pattern of a request's path.
func pathPattern(to *string) scalar {
	want := fmt.Sprintf("a path that begins with /, such as /v1/*/items, without spaces, ? or #, of at most %d bytes", quota.MaxKeyLen)
	return matching(to, want, func(text string) bool {
		odd := func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) || r == '?' || r == '#' }
		return strings.HasPrefix(text, "/") && len(text) <= quota.MaxKeyLen && !strings.ContainsFunc(text, odd)
	})
}

var methodForm = regexp.MustCompile(`^[A-Z][A-Z0-9_-]{0,31}$`)
