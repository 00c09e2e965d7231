package extract

import (
	"errors"
	"net/url"
	"strings"
)

// Key returns the key under which a request is counted. It returns a non-empty key or an error: a
// [*MissingError] if the request has none.
type Key func(Request) (string, error)

// ErrMissing matches every [*MissingError] with errors.Is.
var ErrMissing = errors.New("no key")

// MissingError says what a request lacks. It contains nothing of the request, so it may be shown to
// the caller.
type MissingError struct {
	What string // "header X-Tenant"
	Why  string // "is missing", or what is wrong
}

// Error implements error.
func (e *MissingError) Error() string { return e.What + " " + e.Why }

// Unwrap lets errors.Is find ErrMissing.
func (e *MissingError) Unwrap() error { return ErrMissing }

func missing(what string) *MissingError { return &MissingError{what, "is missing"} }

// Missing says what happens to a request without a key.
type Missing uint8

const (
	// Shared counts all requests without a key together, under the key "*". The default: omitting
	// the key gains nothing.
	Shared Missing = iota
	// Refuse rejects them as invalid: 400, or INVALID_ARGUMENT.
	Refuse
	// Skip lets them pass without counting. A caller who can omit the key has no limit.
	Skip
)

// SharedKey is the key of requests without one, under [Shared].
const SharedKey = "*"

// Header returns the value of an HTTP header field, or of gRPC metadata of that name: the first
// one, trimmed. A proxy that sets it must replace the caller's value, not add to it.
func Header(name string) Key {
	field := fieldOf(name)
	err := missing("header " + field.http)
	return func(r Request) (string, error) {
		if v := r.values(field); len(v) > 0 {
			if s := strings.TrimSpace(v[0]); s != "" {
				return s, nil
			}
		}
		return "", err
	}
}

// Metadata is [Header] under gRPC's name.
func Metadata(name string) Key { return Header(name) }

// PathValue returns a wildcard of the pattern that http.ServeMux has matched. The middleware must
// be inside of the mux, around the handler: outside, nothing is matched yet.
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

// Query returns the first value of a query parameter of an HTTP request.
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

// queryValue finds a parameter without building a map of all. As in net/url, it skips pairs that
// contain a semicolon or cannot be decoded.
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

// Method returns the method of an HTTP request, or the full method of a gRPC call.
func Method() Key {
	err := missing("method")
	return func(r Request) (string, error) {
		if s := method(r); s != "" {
			return s, nil
		}
		return "", err
	}
}

// Host returns the destination of a request: the host of an HTTP request, or the target of an
// outgoing gRPC call. It is the default key for clients.
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

// Constant returns the same key for all requests: one count for the whole service.
func Constant(key string) Key {
	if key == "" {
		panic("extract: Constant: the key is empty") // invariant: the program's own text
	}
	return func(Request) (string, error) { return key, nil }
}
