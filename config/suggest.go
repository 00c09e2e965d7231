package config

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/quorate/quorate/internal/quota"
)

// clipAt is how many characters of a value an error shows.
const clipAt = 60

// clip quotes a value for an error and cuts a long one short.
func clip(s string) string {
	if r := []rune(s[:min(len(s), 4*clipAt+4)]); len(r) > clipAt {
		s = string(r[:clipAt]) + "…"
	}
	return strconv.Quote(s)
}

// shownKey returns a key for an error message, quoted if it has unprintable characters.
func shownKey(k quota.Key) string {
	key := k.Key
	if strings.ContainsFunc(key, func(r rune) bool { return !unicode.IsPrint(r) }) {
		key = strconv.Quote(key)
	}
	return k.LimitName.String() + "/" + key
}
