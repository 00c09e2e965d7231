package httplimit

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/quorate/quorate/client/extract"
	"github.com/quorate/quorate/client/internal/gate"
)

// Option is for [New].
type Option interface{ server(*handler) }

// TransportOption is for [NewTransport].
type TransportOption interface{ transport(*Transport) }

// CommonOption is for both.
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

// asking is what server and client have in common.
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

// Limit asks for one limit.
func Limit(namespace, limit string) CommonOption {
	return commonOption(func(a *asking) { a.Namespace, a.Gate.Limit, a.rules = namespace, limit, false })
}

// Rules asks for all limits of a namespace whose match is for the method and the
// path of the request: all are charged, or none. What matches none passes. ""
// is the namespace of the HTTP rules of limit files, "slas". The path is compared
// decoded and otherwise as it came: a router that serves unclean paths, such as
// //a, should clean them before. http.ServeMux redirects them.
func Rules(namespace string) CommonOption {
	return commonOption(func(a *asking) { a.Namespace, a.Gate.Limit, a.rules = namespace, "", true })
}

// Key says whom a request is counted for. By default a server counts by the
// address of the connection, a client by the host that it calls.
func Key(key extract.Key) CommonOption {
	return commonOption(func(a *asking) { a.Gate.Key = key })
}

// Cost says what a request costs. The default is 1.
func Cost(cost extract.Cost) CommonOption {
	return commonOption(func(a *asking) { a.Gate.Cost = cost })
}

// MissingKey says what becomes of requests without a key. By default they are
// counted together ([extract.Shared]).
func MissingKey(m extract.Missing) CommonOption {
	return commonOption(func(a *asking) { a.Missing = m })
}

// Skip lets requests pass without asking. Several are added up.
func Skip(skip func(*http.Request) bool) CommonOption {
	return commonOption(func(a *asking) { a.skip = append(a.skip, skip) })
}

// SkipMethods is Skip for methods, such as HEAD and OPTIONS.
func SkipMethods(methods ...string) CommonOption {
	return Skip(func(r *http.Request) bool { return slices.Contains(methods, r.Method) })
}

// SkipPaths is Skip for paths, compared as they are, such as /healthz.
func SkipPaths(paths ...string) CommonOption {
	return Skip(func(r *http.Request) bool { return slices.Contains(paths, r.URL.Path) })
}

// Timeout bounds the time that the limiter has for its answer. By default it has
// its own bound, such as client.WithTimeout.
func Timeout(d time.Duration) CommonOption {
	return commonOption(func(a *asking) { a.Gate.Timeout = d })
}

// FailClosed refuses when the limiter has no answer: a server with 503, a client
// with the error. By default requests pass, unless the limiter is a client with
// client.WithFailClosed.
func FailClosed() CommonOption {
	return commonOption(func(a *asking) { a.Gate.FailClosed = true })
}

// OnError is called when the limiter has no answer, to log or count it. It runs
// on the way of the request.
func OnError(f func(context.Context, error)) CommonOption {
	return commonOption(func(a *asking) { a.Gate.OnError = f })
}

// Fields are what answers tell of the limits.
type Fields uint8

const (
	// IETF is RateLimit and RateLimit-Policy, of the IETF's draft.
	IETF Fields = 1 << iota
	// XRateLimit is X-RateLimit-Limit, -Remaining and -Reset, of the limit that has
	// least left. Reset is in seconds from now, rounded up.
	XRateLimit
)

// Headers says which fields answers have; 0 for none. The default is [IETF].
// Retry-After is always there.
func Headers(f Fields) Option {
	return serverOption(func(h *handler) { h.fields = f })
}

// Jitter tells refused callers to come back up to most later, at random, at most
// 24 hours, so that those of a window do not all come at its end. By default it
// adds nothing.
func Jitter(most time.Duration) Option {
	return serverOption(func(h *handler) { h.Gate.Jitter = most })
}

// ShadowHeader names a field that tells the limit on answers to requests that
// passed only because it is not enforced yet. By default there is none.
func ShadowHeader(name string) Option {
	return serverOption(func(h *handler) { h.shadow = http.CanonicalHeaderKey(name) })
}

// OnRefused answers requests that do not pass, in place of the problem. RateLimit
// fields and Retry-After are set when it is called.
func OnRefused(f func(http.ResponseWriter, *http.Request, Refusal)) Option {
	return serverOption(func(h *handler) { h.refused = f })
}

// Wait lets a client wait up to most for its turn, in all. By default it does not
// wait and returns a [*RefusedError].
func Wait(most time.Duration) TransportOption {
	return transportOption(func(t *Transport) { t.wait = most })
}

// Honour makes a client stay away from a host as long as its answers say:
// Retry-After of 429 and 503, and RateLimit of limits that have nothing left. No
// time longer than longest is believed. Requests in the meantime wait or are
// refused as by the limiter.
func Honour(longest time.Duration) TransportOption {
	return transportOption(func(t *Transport) { t.honour = longest })
}
