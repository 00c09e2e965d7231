package config

import "strconv"

// clipAt is how many characters of a value an error shows.
const clipAt = 60

// clip quotes a value for an error and cuts a long one short.
func clip(s string) string {
	if r := []rune(s[:min(len(s), 4*clipAt+4)]); len(r) > clipAt {
		s = string(r[:clipAt]) + "…"
	}
	return strconv.Quote(s)
}
