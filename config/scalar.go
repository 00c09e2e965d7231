package config

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/nearest"
	"github.com/quorate/quorate/internal/quota"
)

// A scalar reads one value from its text, the same way from a file and from
// the environment. Its errors say what is wrong and what would be right.
type scalar struct {
	set    func(text string) error
	want   string // what would be right, after "must be"
	number bool   // in a file, it is written without quotes
}

// wrong is an error on a text that is not what was wanted.
func wrong(text, want string) error {
	return fmt.Errorf("is %s; must be %s", clip(text), want)
}

// whole reads a decimal number from low to high.
func whole[T int | int64](to *T, low, high T) scalar {
	want := fmt.Sprintf("a whole number from %d to %d", low, high)
	return scalar{number: true, want: want, set: func(text string) error {
		digits := strings.TrimPrefix(text, "-")
		plain := digits != "" && strings.Trim(digits, "0123456789") == "" && (digits[0] != '0' || digits == "0")
		n, err := strconv.ParseInt(text, 10, 64)
		if !plain || err != nil || n < int64(low) || n > int64(high) {
			return wrong(text, want)
		}
		*to = T(n)
		return nil
	}}
}

// duration reads a Go duration from low to high.
func duration(to *time.Duration, low, high time.Duration) scalar {
	want := fmt.Sprintf("a duration with its unit, from %s to %s", short(low), short(high))
	return scalar{want: want, set: func(text string) error {
		v, err := time.ParseDuration(text)
		if err != nil || v < low || v > high {
			return wrong(text, want)
		}
		*to = v
		return nil
	}}
}

// durationOrNever is duration, and 0 for never.
func durationOrNever(to *time.Duration, low, high time.Duration) scalar {
	s := duration(to, low, high)
	want, timed := s.want+", or 0 for never", s.set
	return scalar{want: want, set: func(text string) error {
		if v, err := time.ParseDuration(text); err == nil && v == 0 {
			*to = 0
			return nil
		}
		if timed(text) != nil {
			return wrong(text, want)
		}
		return nil
	}}
}

// short writes a duration without its zero parts: 10m, not 10m0s.
func short(v time.Duration) string { return trimZeros(v.String()) }

func trimZeros(s string) string {
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// oneOf reads one of the values by its spelling.
func oneOf[T any](to *T, spell func(T) string, values ...T) scalar {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = spell(v)
	}
	last := len(words) - 1
	want := strings.Join(words[:last], ", ") + " or " + words[last]
	return scalar{want: want, set: func(text string) error {
		if i := slices.Index(words, text); i >= 0 {
			*to = values[i]
			return nil
		}
		if s := nearest.Word(text, words); s != "" {
			return fmt.Errorf("is %s; must be %s (did you mean %s?)", clip(text), want, s)
		}
		return wrong(text, want)
	}}
}

// numberOf reads one of the numbers.
func numberOf(to *int, values ...int) scalar {
	s := oneOf(to, strconv.Itoa, values...)
	s.number = true
	return s
}

// name reads what a cluster or a node is called: a name that begins with a
// letter or digit, so that it can be a directory.
func name[T ~string](to *T) scalar {
	want := nameWant + " that begin with a letter or digit"
	return scalar{want: want, set: func(text string) error {
		if quota.CheckName("", text) != nil || strings.IndexByte("._-", text[0]) >= 0 {
			return wrong(text, want)
		}
		*to = T(text)
		return nil
	}}
}

// nameWant is what quota.CheckName wants of a name.
var nameWant = fmt.Sprintf("1 to %d of the characters a-z A-Z 0-9 . _ -", quota.MaxNameLen)

// onOff reads on or off.
func onOff(to *bool) scalar {
	return oneOf(to, func(on bool) string {
		if on {
			return "on"
		}
		return "off"
	}, true, false)
}

// filePath reads the path of a file or directory.
func filePath(to *string) scalar {
	want := "a path"
	return scalar{want: want, set: func(text string) error {
		if strings.TrimSpace(text) == "" || strings.ContainsRune(text, 0) {
			return wrong(text, want)
		}
		*to = text
		return nil
	}}
}

// listening reads host:port to listen on. The host may be left out (every
// interface) and the port may be 0 (any).
func listening(to *string) scalar {
	return hostPort(to, "host:port, such as 127.0.0.1:7411 or :7411", true)
}

// reachable reads host:port at which others reach a node; want says which.
func reachable(to *string, want string) scalar { return hostPort(to, want, false) }

const peerWant = "host:port that the other nodes can reach, such as 10.0.0.1:7413"

func hostPort(to *string, want string, listen bool) scalar {
	return scalar{want: want, set: func(text string) error {
		host, port, err := net.SplitHostPort(text)
		n, portErr := strconv.ParseUint(port, 10, 16)
		if cmp.Or(err, portErr) != nil || strings.ContainsAny(host, " /@") {
			return wrong(text, want)
		}
		ip, _ := netip.ParseAddr(host)
		if !listen && (n == 0 || host == "" || ip.IsUnspecified()) {
			return wrong(text, want)
		}
		*to = text
		return nil
	}}
}
