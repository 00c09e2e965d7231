package config

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/zone"
)

// The scalars of limit files beyond those that node settings have too.

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

// maxWeeks is quota.MaxPause in whole weeks.
const maxWeeks = int64(quota.MaxPause / (7 * 24 * time.Hour))

// pause reads a duration that may be in days or weeks: 10s, 1h30m, 1d, 2w.
func pause(to *time.Duration, low time.Duration) scalar {
	want := fmt.Sprintf("a duration such as 10s, 90m, 1d or 1w, from %s to %s", formatPause(low), formatPause(quota.MaxPause))
	return scalar{want: want, set: func(text string) error {
		v, err := parsePause(text)
		if err != nil || v < low || v > quota.MaxPause {
			return wrong(text, want)
		}
		*to = v
		return nil
	}}
}

func parsePause(text string) (time.Duration, error) {
	day := 24 * time.Hour
	for suffix, unit := range map[string]time.Duration{"d": day, "w": 7 * day} {
		digits, ok := strings.CutSuffix(text, suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 16)
		if err != nil || time.Duration(n) > quota.MaxPause/unit {
			return 0, errors.New("too long")
		}
		return time.Duration(n) * unit, nil
	}
	return time.ParseDuration(text)
}

// formatPause writes what parsePause reads, in the largest whole unit.
func formatPause(d time.Duration) string {
	day := 24 * time.Hour
	switch {
	case d == 0 || d%day != 0:
		return short(d)
	case d%(7*day) == 0 && int64(d/(7*day)) <= maxWeeks:
		return strconv.FormatInt(int64(d/(7*day)), 10) + "w"
	}
	return strconv.FormatInt(int64(d/day), 10) + "d"
}

// boolean reads true or false.
func boolean(to *bool) scalar {
	want := "true or false"
	return scalar{number: true, want: want, set: func(text string) error {
		if text != "true" && text != "false" {
			return wrong(text, want)
		}
		*to = text == "true"
		return nil
	}}
}

// yes reads a field that is either true or left out.
func yes() scalar {
	want := "true, or left out"
	return scalar{number: true, want: want, set: func(text string) error {
		if text != "true" {
			return wrong(text, want)
		}
		return nil
	}}
}

// decimal is a plain number with up to six places.
var decimal = regexp.MustCompile(`^([0-9]{1,12})(?:\.([0-9]{1,6}))?$`)

// parts reads a decimal number times so many parts, exactly.
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

// formatParts writes n parts of one as a decimal number.
func formatParts(n, one int64) string {
	s := strconv.FormatInt(n/one, 10)
	if rest := n % one; rest > 0 {
		digits := strconv.FormatInt(one+rest, 10)[1:]
		s += "." + strings.TrimRight(digits, "0")
	}
	return s
}

// percent reads a percentage as parts per million: above 0%, up to 100%.
func percent(to *int64) scalar {
	want := "a percentage above 0% up to 100%, such as 25% or 0.5%"
	return scalar{want: want, set: func(text string) error {
		digits, ok := strings.CutSuffix(text, "%")
		n, exact := parts(digits, quota.Million/100)
		switch {
		case ok && exact && n == 0:
			return fmt.Errorf("is %s, which enforces nothing; write enforcement: shadow, or a fraction above 0%%", clip(text))
		case !ok || !exact || n > quota.Million:
			return wrong(text, want)
		}
		*to = n
		return nil
	}}
}

// near reads from how much use a limit is nearly used up.
func near(to *int64) scalar {
	want := "a whole percentage from 1% to 100%, such as 90%"
	return scalar{want: want, set: func(text string) error {
		digits, ok := strings.CutSuffix(text, "%")
		var n int64
		if whole(&n, 1, 100).set(digits) != nil || !ok {
			return wrong(text, want)
		}
		*to = n
		return nil
	}}
}

// scale reads a factor, as 2.5x or 250%, in parts per million.
func scale(to *int64) scalar {
	want := "a factor above 0, such as 2.5x or 250%, at most " + strconv.Itoa(quota.MaxScale/quota.Million) + "x"
	return scalar{want: want, set: func(text string) error {
		var n int64
		var ok bool
		if digits, x := strings.CutSuffix(text, "x"); x {
			n, ok = parts(digits, quota.Million)
		} else if digits, per := strings.CutSuffix(text, "%"); per {
			n, ok = parts(digits, quota.Million/100)
		}
		if !ok || n < 1 || n > quota.MaxScale {
			return wrong(text, want)
		}
		*to = n
		return nil
	}}
}

// timeZone reads the name of a time zone.
func timeZone(to **time.Location) scalar {
	want := "an IANA time zone, such as UTC, Europe/Berlin or America/New_York"
	return scalar{want: want, set: func(text string) error {
		l, err := zone.Load(text)
		if err != nil || text == "" {
			return wrong(text, want)
		}
		*to = l
		return nil
	}}
}

// limitName reads the name of a limit.
func limitName(to *string) scalar {
	want := "the name of a limit: " + nameWant
	return scalar{want: want, set: func(text string) error {
		if quota.CheckName("", text) != nil {
			return wrong(text, want)
		}
		*to = text
		return nil
	}}
}

// pathPattern reads the pattern of a request's path.
func pathPattern(to *string) scalar {
	want := fmt.Sprintf("a path that begins with /, such as /v1/*/items, without spaces, ? or #, of at most %d bytes", quota.MaxKeyLen)
	return scalar{want: want, set: func(text string) error {
		odd := func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) || r == '?' || r == '#' }
		if !strings.HasPrefix(text, "/") || len(text) > quota.MaxKeyLen || strings.ContainsFunc(text, odd) {
			return wrong(text, want)
		}
		*to = text
		return nil
	}}
}

var methodForm = regexp.MustCompile(`^[A-Z][A-Z0-9_-]{0,31}$`)

// method reads an HTTP method.
func method(to *string) scalar {
	want := "an HTTP method in upper case, such as GET"
	return scalar{want: want, set: func(text string) error {
		if !methodForm.MatchString(text) {
			return wrong(text, want)
		}
		*to = text
		return nil
	}}
}
