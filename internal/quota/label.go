package quota

import (
	"strconv"
	"strings"
)

// LabelOf returns the value of a label of a key, and whether the key has it. A key is split into
// parts at "/" and ","; a part "name=value" is the label of that name, and each part is also the
// label of its number, from 1. The first part of a name wins.
func LabelOf(key, name string) (value string, ok bool) {
	number, err := strconv.Atoi(name)
	for i := 1; ; i++ {
		end := strings.IndexAny(key, "/,")
		part := key
		if end >= 0 {
			part = key[:end]
		}
		switch n, v, named := strings.Cut(part, "="); {
		case err == nil && i == number:
			return part, true
		case named && n == name:
			return v, true
		}
		if end < 0 {
			return "", false
		}
		key = key[end+1:]
	}
}

// HasLabel reports whether the key has the label, written name=value. Every key has the empty
// label.
func HasLabel(key, label string) bool {
	if label == "" {
		return true
	}
	name, want, _ := strings.Cut(label, "=")
	got, ok := LabelOf(key, name)
	return ok && got == want
}
