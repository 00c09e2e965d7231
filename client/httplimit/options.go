package httplimit

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/quorate/quorate/client/extract"
	"github.com/quorate/quorate/client/internal/gate"
)

// Option is an option for [New].
type Option interface{ server(*handler) }

// TransportOption is an option for [NewTransport].
type TransportOption interface{ transport(*Transport) }

// CommonOption is an option for both.
type CommonOption interface {
	Option
	TransportOption
}

type (
	serverOption    func(*handler)
	transportOption func(*Transport)
	commonOption    func(*asking)
)

func (o serverOption) server(h *handler)         { o(h) }
func (o transportOption) transport(t *Transport) { o(t) }
func (o commonOption) server(h *handler)         { o(&h.asking) }
func (o commonOption) transport(t *Transport)    { o(&t.asking) }

// asking is what server and client share.
type asking struct {
	gate.Gate
	rules bool
	skip  []func(*http.Request) bool
}

func (a *asking) skips(r *http.Request) bool {
	for _, skip := range a.skip {
		if skip(r) {
			return true
		}
	}
	return false
}

// Limit sets the limit.
func Limit(namespace, limit string) CommonOption {
	return commonOption(func(a *asking) { a.Namespace, a.Gate.Limit, a.rules = namespace, limit, false })
}

// Rules checks all limits of a namespace whose match is for the method and the path of the request:
// all are charged, or none. Requests that match none pass. "" means "slas", the namespace of the
// HTTP rules in limit files. The path is compared decoded and otherwise unchanged: a router that
// serves unclean paths, such as //a, should clean them before. http.ServeMux redirects them.
func Rules(namespace string) CommonOption {
	return commonOption(func(a *asking) { a.Namespace, a.Gate.Limit, a.rules = namespace, "", true })
}

// Key sets the key of requests. The default is the address of the connection for servers, and the
// called host for clients.
func Key(key extract.Key) CommonOption {
	return commonOption(func(a *asking) { a.Gate.Key = key })
}

// Cost sets the cost of a request. The default is 1.
func Cost(cost extract.Cost) CommonOption {
	return commonOption(func(a *asking) { a.Gate.Cost = cost })
}

// MissingKey says what happens to requests without a key. By default they are counted together
// ([extract.Shared]).
func MissingKey(m extract.Missing) CommonOption {
	return commonOption(func(a *asking) { a.Missing = m })
}

// Skip lets matching requests pass without a check. Several Skips add up.
func Skip(skip func(*http.Request) bool) CommonOption {
	return commonOption(func(a *asking) { a.skip = append(a.skip, skip) })
}

// SkipMethods is Skip for methods, such as HEAD and OPTIONS.
func SkipMethods(methods ...string) CommonOption {
	return Skip(func(r *http.Request) bool { return slices.Contains(methods, r.Method) })
}

// SkipPaths is Skip for exact paths, such as /healthz.
func SkipPaths(paths ...string) CommonOption {
	return Skip(func(r *http.Request) bool { return slices.Contains(paths, r.URL.Path) })
}

// Timeout bounds the time for the limiter's answer. The default is the limiter's own bound, such as
// client.WithTimeout.
func Timeout(d time.Duration) CommonOption {
	return commonOption(func(a *asking) { a.Gate.Timeout = d })
}

// FailClosed refuses if the limiter has no answer: a server with 503, a client with the error. By
// default requests pass, unless the limiter is a client with client.WithFailClosed.
func FailClosed() CommonOption {
	return commonOption(func(a *asking) { a.Gate.FailClosed = true })
}

// OnError sets a function to call if the limiter has no answer, for logging or counting. It runs
// synchronously in the request.
func OnError(f func(context.Context, error)) CommonOption {
	return commonOption(func(a *asking) { a.Gate.OnError = f })
}

// Fields selects the rate limit fields of responses.
type Fields uint8

const (
	// IETF is RateLimit and RateLimit-Policy of the IETF draft.
	IETF Fields = 1 << iota
	// XRateLimit is X-RateLimit-Limit, -Remaining and -Reset of the limit with the least remaining.
	// Reset is in seconds from now, rounded up.
	XRateLimit
)

// Headers sets the fields of responses; 0 for none. The default is [IETF]. Retry-After is always
// sent.
func Headers(f Fields) Option {
	return serverOption(func(h *handler) { h.fields = f })
}

// Jitter adds a random time, up to most and at most 24 hours, to the retry time of refused callers,
// so that those of a window do not all retry at its end. The default is 0.
func Jitter(most time.Duration) Option {
	return serverOption(func(h *handler) { h.Gate.Jitter = most })
}

// ShadowHeader sets a field that names the limit in responses to requests that passed only because
// it is not enforced yet. By default there is no such field.
func ShadowHeader(name string) Option {
	return serverOption(func(h *handler) { h.shadow = http.CanonicalHeaderKey(name) })
}

// OnRefused sets a function that answers requests that do not pass, instead of a problem. RateLimit
// fields and Retry-After are set when it is called.
func OnRefused(f func(http.ResponseWriter, *http.Request, Refusal)) Option {
	return serverOption(func(h *handler) { h.refused = f })
}

// Wait lets a client wait, up to most in total. By default it does not wait and returns a
// [*RefusedError].
func Wait(most time.Duration) TransportOption {
	return transportOption(func(t *Transport) { t.wait = most })
}

// Honour makes a client avoid a host for as long as its responses say: Retry-After of 429 and 503,
// and RateLimit of exhausted limits, but no longer than longest. In the meantime requests wait or
// are refused as by the limiter.
func Honour(longest time.Duration) TransportOption {
	return transportOption(func(t *Transport) { t.honour = longest })
}
