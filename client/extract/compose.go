package extract

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"unicode/utf8"
)

// MaxKey is the largest size of a key in bytes.
const MaxKey = 1024

// Join combines several keys with "|": acme|GET. In the parts, "|" is encoded as %7C and "%" as
// %25, so that different lists give different keys. All parts must be present.
func Join(parts ...Key) Key {
	if len(parts) == 0 {
		panic("extract: Join: no keys") // invariant: the program's own text
	}
	return func(r Request) (string, error) {
		var buf [128]byte
		b := buf[:0]
		for i, part := range parts {
			s, err := part(r)
			if err != nil {
				return "", err
			}
			if i > 0 {
				b = append(b, '|')
			}
			b = appendEscaped(b, s)
		}
		return Bound(string(b)), nil
	}
}

func appendEscaped(b []byte, s string) []byte {
	for {
		i := strings.IndexAny(s, "|%")
		if i < 0 {
			return append(b, s...)
		}
		b = append(b, s[:i]...)
		if s[i] == '|' {
			b = append(b, "%7C"...)
		} else {
			b = append(b, "%25"...)
		}
		s = s[i+1:]
	}
}

// First returns the first of several keys that is present. The keys share one name space: if a
// caller can choose one of them, wrap each in a Join with a Constant.
func First(keys ...Key) Key {
	if len(keys) == 0 {
		panic("extract: First: no keys") // invariant: the program's own text
	}
	return func(r Request) (string, error) {
		for _, key := range keys {
			if s, err := key(r); err == nil {
				return s, nil
			}
		}
		return "", allMissing(keys, r)
	}
}

// allMissing returns an error that names everything that is missing.
func allMissing(keys []Key, r Request) error {
	var errs []error
	for _, key := range keys {
		if _, err := key(r); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == 1 {
		return errs[0]
	}
	what := make([]string, len(errs))
	for i, err := range errs {
		what[i] = err.Error()
	}
	return &MissingError{"no key of " + strings.Join(what, "; "), "is there"}
}

// Bound returns a key that every limiter accepts: a key longer than [MaxKey] or not in UTF-8
// becomes "sha256:" and 64 hexadecimal digits. The result is empty only if key is.
func Bound(key string) string {
	if len(key) <= MaxKey && utf8.ValidString(key) {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Of returns the key of a request, bounded, after applying m if it is missing: err says what is
// missing and that the request must be refused; skip says that the request is not counted.
func (m Missing) Of(key Key, r Request) (s string, skip bool, err error) {
	s, err = key(r)
	if err == nil && s == "" {
		err = errEmpty
	}
	if err == nil {
		return Bound(s), false, nil
	}
	switch m {
	case Skip:
		return "", true, nil
	case Refuse:
		return "", false, err
	default:
		return SharedKey, false, nil
	}
}

var errEmpty = missing("key")

// IsMissing reports whether err says that a request has no key.
func IsMissing(err error) bool { return errors.Is(err, ErrMissing) }
