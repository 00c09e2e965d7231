// Package phrase formats counts, durations, sizes and untrusted text for people, alike in the command
// line, the console and error messages.
package phrase

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Plural formats a count with its noun, such as "1 file", "2 files" or "2 policies".
func Plural(n int, noun string) string {
	if n != 1 {
		stem, y := strings.CutSuffix(noun, "y")
		switch {
		case y && !strings.HasSuffix(stem, "a") && !strings.HasSuffix(stem, "e") && !strings.HasSuffix(stem, "o"):
			noun = stem + "ies"
		case strings.HasSuffix(noun, "s"):
			noun += "es"
		default:
			noun += "s"
		}
	}
	return strconv.Itoa(n) + " " + noun
}

// Span formats a duration without zero parts: 1h30m, 10m, 2.5s.
func Span(d time.Duration) string { return TrimZeros(d.String()) }

// Days formats a duration in days if it is whole days, such as 30d, and otherwise as Span does.
func Days(d time.Duration) string {
	if d > 0 && d%(24*time.Hour) == 0 {
		return strconv.FormatInt(int64(d/(24*time.Hour)), 10) + "d"
	}
	return Span(d)
}

// TrimZeros removes the zero parts at the end of a formatted duration: 10m for 10m0s.
func TrimZeros(s string) string {
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Percent formats a part of a whole as a percentage of three digits: 12.5%. A part of nothing is 0%.
func Percent(part, whole int64) string {
	if whole == 0 {
		return "0%"
	}
	return strconv.FormatFloat(100*float64(part)/float64(whole), 'g', 3, 64) + "%"
}

// Bytes formats a number of bytes in binary units: 512 B, 2.0 KiB, 150 MiB.
func Bytes(n uint64) string {
	unit, v := 0, float64(n)
	for ; v >= 1024 && unit < 4; unit++ {
		v /= 1024
	}
	decimals := 1
	if unit == 0 || v >= 100 {
		decimals = 0
	}
	return strconv.FormatFloat(v, 'f', decimals, 64) + " " + [...]string{"B", "KiB", "MiB", "GiB", "TiB"}[unit]
}

// Show makes a text that a user chose, such as a key, safe for a terminal and cuts it to 64
// characters.
func Show(s string) string {
	const most = 64
	s = Printable(s)
	if utf8.RuneCountInString(s) > most {
		return string([]rune(s)[:most-3]) + "..."
	}
	return s
}

// Printable quotes a text with characters that a terminal would interpret.
func Printable(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) {
		return strconv.Quote(s)
	}
	return s
}

// Clip cuts a text to at most most bytes of whole characters, and marks the cut with "...".
func Clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
