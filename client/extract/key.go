package extract

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
)

// Key says whom a request is counted for. It returns a non-empty key or an
// error: a [*MissingError] where the request has none.
type Key func(Request) (string, error)

// ErrMissing is what every [*MissingError] is, for errors.Is.
var ErrMissing = errors.New("no key")

// MissingError says what a request does not have. It quotes nothing of the
// request, so that it may be shown to the caller.
type MissingError struct {
	What string // "header X-Tenant"
	Why  string // "is missing", or what is wrong with it
}

// Error implements error.
func (e *MissingError) Error() string { return e.What + " " + e.Why }

// Unwrap lets errors.Is find ErrMissing.
func (e *MissingError) Unwrap() error { return ErrMissing }

func missing(what string) *MissingError { return &MissingError{what, "is missing"} }

// Missing says what becomes of a request without a key.
type Missing uint8

const (
	// Shared counts all requests without a key together, under the key "*".
	// The default: nobody gains by leaving the key out.
	Shared Missing = iota
	// Refuse refuses them as faulty: 400, or INVALID_ARGUMENT.
	Refuse
	// Skip lets them pass uncounted. Whoever can leave the key out has no limit.
	Skip
)

// SharedKey is the key of requests that have none, under [Shared].
const SharedKey = "*"

// Header is the value of an HTTP header field, or of the gRPC metadata of that
// name; the first one, without spaces around it. A proxy that sets it has to
// replace what the caller sent, not add to it.
func Header(name string) Key {
	field := http.CanonicalHeaderKey(name)
	lower := strings.ToLower(name)
	err := missing("header " + field)
	return func(r Request) (string, error) {
		n := field
		if r.HTTP == nil {
			n = lower
		}
		if v := r.values(n); len(v) > 0 {
			if s := strings.TrimSpace(v[0]); s != "" {
				return s, nil
			}
		}
		return "", err
	}
}

// Metadata is [Header], in the words of gRPC.
func Metadata(name string) Key { return Header(name) }

// PathValue is a wildcard of the pattern that a http.ServeMux has found. The
// middleware has to be inside of the mux, around the handler: outside, nothing
// has been matched yet.
func PathValue(name string) Key {
	err := missing("path value {" + name + "}")
	return func(r Request) (string, error) {
		if r.HTTP != nil {
			if s := r.HTTP.PathValue(name); s != "" {
				return s, nil
			}
		}
		return "", err
	}
}

// Query is the first value of a parameter in the query of an HTTP request.
func Query(name string) Key {
	err := missing("query parameter " + name)
	return func(r Request) (string, error) {
		if r.HTTP == nil || r.HTTP.URL == nil {
			return "", err
		}
		if s := queryValue(r.HTTP.URL.RawQuery, name); s != "" {
			return s, nil
		}
		return "", err
	}
}

// queryValue finds a parameter without building a map of all of them. As in
// net/url, what cannot be decoded or has a semicolon in it is passed over.
func queryValue(query, name string) string {
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		if strings.Contains(pair, ";") {
			continue
		}
		k, v, _ := strings.Cut(pair, "=")
		if k, err := url.QueryUnescape(k); err != nil || k != name {
			continue
		}
		if v, err := url.QueryUnescape(v); err == nil {
			return v
		}
	}
	return ""
}

// Method is the method of an HTTP request, or the full method of a gRPC call.
func Method() Key {
	err := missing("method")
	return func(r Request) (string, error) {
		if s := method(r); s != "" {
			return s, nil
		}
		return "", err
	}
}

// Host is whom the request is for: of an HTTP request its host, of a gRPC call
// that goes out its target. It is the key of what a client sends.
func Host() Key {
	err := missing("host")
	return func(r Request) (string, error) {
		switch {
		case r.HTTP != nil && r.HTTP.URL != nil && r.HTTP.URL.Host != "":
			return r.HTTP.URL.Host, nil
		case r.HTTP != nil && r.HTTP.Host != "":
			return r.HTTP.Host, nil
		case r.Call != nil && r.Call.Target != "":
			return r.Call.Target, nil
		}
		return "", err
	}
}

// Constant is the same key for all: one count for the whole service.
func Constant(key string) Key {
	if key == "" {
		panic("extract: Constant: the key is empty") // invariant: the program's own text
	}
	return func(Request) (string, error) { return key, nil }
}
