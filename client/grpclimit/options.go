package grpclimit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/extract"
	"github.com/quorate/quorate/client/internal/fields"
	"github.com/quorate/quorate/client/internal/gate"
)

// Option is an option for servers and clients.
type Option interface {
	ServerOption
	ClientOption
}

// ServerOption is an option for [Server], [UnaryServerInterceptor] and [StreamServerInterceptor].
type ServerOption interface{ server(*config) }

// ClientOption is an option for [Client], [UnaryClientInterceptor] and [StreamClientInterceptor].
type ClientOption interface{ client(*config) }

type (
	option       func(*config)
	serverOption func(*config)
	clientOption func(*config)
)

func (o option) server(c *config)       { o(c) }
func (o option) client(c *config)       { o(c) }
func (o serverOption) server(c *config) { o(c) }
func (o clientOption) client(c *config) { o(c) }

type config struct {
	gate.Gate // for methods without one of their own
	rules     bool
	methods   map[string]*gate.Gate
	skip      []func(string) bool
	message   bool
	silent    bool
	wait      time.Duration
	writer    fields.Writer
}

func (c *config) validate(l client.Limiter) error {
	c.Limiter = l
	for name, g := range c.methods {
		if !strings.HasPrefix(name, "/") || strings.Count(name, "/") != 2 {
			return fmt.Errorf("Method: %q; must be /package.Service/Method", name)
		}
		namespace, limit := g.Namespace, g.Limit
		*g = c.Gate
		g.Namespace, g.Limit = namespace, limit
		if err := g.Validate(false); err != nil {
			return fmt.Errorf("Method %s: %w", name, err)
		}
	}
	if c.wait < 0 {
		return fmt.Errorf("Wait: %v; must not be negative", c.wait)
	}
	return c.Validate(c.rules || len(c.methods) > 0)
}

// gateOf returns the gate of a method; nil if it has none.
func (c *config) gateOf(method string) *gate.Gate {
	for _, skip := range c.skip {
		if skip(method) {
			return nil
		}
	}
	if g, ok := c.methods[method]; ok {
		return g
	}
	if c.Limit == "" && !c.rules {
		return nil
	}
	return &c.Gate
}

// Limit sets the limit of all methods without one of their own.
func Limit(namespace, limit string) Option {
	return option(func(c *config) { c.Namespace, c.Gate.Limit, c.rules = namespace, limit, false })
}

// Rules checks all limits of a namespace whose match is for POST and the full method as path: all
// are charged, or none. Calls that match none pass. "" means "slas", the namespace of the HTTP
// rules in limit files.
func Rules(namespace string) Option {
	return option(func(c *config) { c.Namespace, c.Gate.Limit, c.rules = namespace, "", true })
}

// Method sets the limit of one full method, /package.Service/Method.
func Method(fullMethod, namespace, limit string) Option {
	return option(func(c *config) {
		if c.methods == nil {
			c.methods = make(map[string]*gate.Gate)
		}
		c.methods[fullMethod] = &gate.Gate{Namespace: namespace, Limit: limit}
	})
}

// Key sets the key of calls.
func Key(key extract.Key) Option { return option(func(c *config) { c.Gate.Key = key }) }

// Cost sets the cost of a call or, with [PerMessage], of a message. The default is 1.
func Cost(cost extract.Cost) Option { return option(func(c *config) { c.Gate.Cost = cost }) }

// MissingKey says what happens to calls without a key. By default they are counted together
// ([extract.Shared]).
func MissingKey(m extract.Missing) Option { return option(func(c *config) { c.Missing = m }) }

// Skip lets calls of matching full methods pass without a check. Several Skips add up.
func Skip(skip func(fullMethod string) bool) Option {
	return option(func(c *config) { c.skip = append(c.skip, skip) })
}

// SkipMethods is Skip for full methods, such as /grpc.health.v1.Health/Check.
func SkipMethods(fullMethods ...string) Option {
	return Skip(func(m string) bool { return slices.Contains(fullMethods, m) })
}

// Timeout bounds the time for the limiter's answer. The default is the limiter's own bound, such as
// client.WithTimeout.
func Timeout(d time.Duration) Option { return option(func(c *config) { c.Gate.Timeout = d }) }

// FailClosed refuses with UNAVAILABLE if the limiter has no answer. By default calls pass, unless
// the limiter is a client with client.WithFailClosed.
func FailClosed() Option { return option(func(c *config) { c.Gate.FailClosed = true }) }

// OnError sets a function to call if the limiter has no answer, for logging or counting. It runs
// synchronously in the call.
func OnError(f func(context.Context, error)) Option {
	return option(func(c *config) { c.Gate.OnError = f })
}

// PerMessage checks every message from the caller of a stream instead of the call.
func PerMessage() Option { return option(func(c *config) { c.message = true }) }

// Jitter adds a random time, up to most and at most 24 hours, to the retry time of refused callers,
// so that those of a window do not all retry at its end. The default is 0.
func Jitter(most time.Duration) ServerOption {
	return serverOption(func(c *config) { c.Gate.Jitter = most })
}

// NoMetadata omits ratelimit and ratelimit-policy from the metadata.
func NoMetadata() ServerOption { return serverOption(func(c *config) { c.silent = true }) }

// Wait lets a client wait for a call or a message, up to most in total. By default it does not
// wait.
func Wait(most time.Duration) ClientOption { return clientOption(func(c *config) { c.wait = most }) }
