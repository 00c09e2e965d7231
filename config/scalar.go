package config

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/suggest"
)

// A scalar reads one value from its text, from a file or from the environment. Its errors say what
// is wrong and what would be right.
type scalar struct {
	set    func(text string) error
	want   string  // what would be right, after "must be"
	number bool    // a file must have it without quotes
	file   *string // the target if it is the path of a file or directory, otherwise nil
}

// parsed returns a scalar that stores the result of parse; want says what would be right.
func parsed[T any](to *T, want string, parse func(text string) (T, bool)) scalar {
	return scalar{want: want, set: func(text string) error {
		v, ok := parse(text)
		if !ok {
			return Wrong(text, want)
		}
		*to = v
		return nil
	}}
}

// matching returns a scalar that stores the text itself if it passes right.
func matching[T ~string](to *T, want string, right func(text string) bool) scalar {
	return parsed(to, want, func(text string) (T, bool) { return T(text), right(text) })
}

// plain returns the scalar with the requirement that a file has it without quotes.
func (s scalar) plain() scalar {
	s.number = true
	return s
}

// Wrong returns the error for a text that is not as wanted.
func Wrong(text, want string) error {
	return fmt.Errorf("is %s; must be %s", clip(text), want)
}

// whole reads a decimal number from low to high.
func whole[T int | int64](to *T, low, high T) scalar {
	return wholeAs(to, low, high, fmt.Sprintf("a whole number from %d to %d", low, high))
}

func wholeAs[T int | int64](to *T, low, high T, want string) scalar {
	return parsed(to, want, func(text string) (T, bool) {
		n, err := strconv.ParseInt(text, 10, 64)
		return T(n), err == nil && text == strconv.FormatInt(n, 10) && n >= int64(low) && n <= int64(high)
	}).plain()
}

// duration reads a Go duration from low to high.
func duration(to *time.Duration, low, high time.Duration) scalar {
	want := fmt.Sprintf("a duration with its unit, from %s to %s", phrase.Span(low), phrase.Span(high))
	return parsed(to, want, func(text string) (time.Duration, bool) {
		v, err := time.ParseDuration(text)
		return v, err == nil && v >= low && v <= high
	})
}

// durationOrNever reads a Go duration from low to high, or 0 for never.
func durationOrNever(to *time.Duration, low, high time.Duration) scalar {
	timed := duration(to, low, high)
	return parsed(to, timed.want+", or 0 for never", func(text string) (time.Duration, bool) {
		v, err := time.ParseDuration(text)
		return v, err == nil && (v == 0 || v >= low && v <= high)
	})
}

// oneOf reads one of the values by its word, as spell returns it.
func oneOf[T any](to *T, spell func(T) string, values ...T) scalar {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = spell(v)
	}
	want := enumerate(words, "or")
	return scalar{want: want, set: func(text string) error {
		if i := slices.Index(words, text); i >= 0 {
			*to = values[i]
			return nil
		}
		if s := suggest.Word(text, words); s != "" {
			return fmt.Errorf("is %s; must be %s (did you mean %s?)", clip(text), want, s)
		}
		return Wrong(text, want)
	}}
}

// enumerate joins words as in a sentence: a, b and c.
func enumerate(words []string, and string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " " + and + " " + words[last]
}

// name reads the name of a cluster or a node. It must begin with a letter or digit, so that it can
// name a directory.
func name[T ~string](to *T) scalar {
	return matching(to, nameWant+" that begin with a letter or digit", func(text string) bool {
		return quota.CheckName("", text) == nil && strings.IndexByte("._-", text[0]) < 0
	})
}

// nameWant describes the names that quota.CheckName accepts.
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
	s := matching(to, "a path", func(text string) bool {
		return strings.TrimSpace(text) != "" && !strings.ContainsRune(text, 0)
	})
	s.file = to
	return s
}

// listening reads host:port to listen on. The host may be missing (all interfaces), and the port
// may be 0 (any).
func listening(to *string) scalar {
	return hostPort(to, "host:port, such as 127.0.0.1:7411 or :7411", true)
}

// reachable reads the host:port at which others reach a node.
func reachable(to *string, want string) scalar { return hostPort(to, want, false) }

const peerWant = "host:port that the other nodes can reach, such as 10.0.0.1:7413"

func hostPort(to *string, want string, listen bool) scalar {
	return matching(to, want, func(text string) bool {
		host, port, err := net.SplitHostPort(text)
		n, portErr := strconv.ParseUint(port, 10, 16)
		ip, _ := netip.ParseAddr(host)
		reachable := n != 0 && host != "" && !ip.IsUnspecified()
		return cmp.Or(err, portErr) == nil && !strings.ContainsAny(host, " /@") && (listen || reachable)
	})
}

// numberForm matches a decimal number; it excludes hexadecimal and infinite ones.
var numberForm = regexp.MustCompile(`^-?[0-9]{1,18}(\.[0-9]{1,18})?$`)

func plainNumber(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
