package client

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

// Default is a limit of the client's own, used while the cluster's is unknown. It belongs to this
// process, counts every key separately, and what passes is not reported to any node.
//
// The most specific one applies: that of the limit, of its namespace, of all. If none applies,
// requests pass, or are refused with [WithFailClosed].
type Default struct {
	Namespace string // "" means all
	Limit     string // "" means all in the namespace
	Rate      string // as in limit files: "100/s"
	Burst     int64  // the most that passes at once; 0 means what Rate yields in a second, at least 1
	// Hard refuses everything until the limit is known. Rate and Burst are ignored.
	Hard bool
}

// maxFallbackKeys bounds the keys of the client's own limits. Beyond it full buckets are dropped,
// and checks of further keys pass.
const maxFallbackKeys = 10_000

// fallback decides by the client's own limits.
type fallback struct {
	rules      map[quota.LimitName]*ownRule
	failClosed bool // refuses if no rule applies
	clock      *clock

	mu   sync.Mutex
	keys map[quota.Key]*ownBucket
	full quota.Time // last search for keys to drop
}

type ownRule struct {
	Default
	rate quota.Rate
}

type ownBucket struct {
	limiter.Bucket
	rule *ownRule
}

// newFallback validates the client's own limits.
func newFallback(defaults []Default, failClosed bool, c *clock) (*fallback, error) {
	f := &fallback{rules: map[quota.LimitName]*ownRule{}, failClosed: failClosed, clock: c, keys: map[quota.Key]*ownBucket{}}
	for i, d := range defaults {
		r, err := d.rule()
		if err != nil {
			return nil, &Error{Kind: ErrInvalid, Field: "defaults", Detail: fmt.Sprintf("defaults[%d].%v", i, err)}
		}
		n := quota.LimitName{Namespace: d.Namespace, Limit: d.Limit}
		if f.rules[n] != nil {
			return nil, &Error{Kind: ErrInvalid, Field: "defaults", Detail: fmt.Sprintf("defaults[%d]: duplicate %q/%q", i, d.Namespace, d.Limit)}
		}
		f.rules[n] = r
	}
	if everything := (quota.LimitName{}); failClosed && f.rules[everything] == nil {
		f.rules[everything] = &ownRule{Default: Default{Hard: true}}
	}
	return f, nil
}

// effect describes what becomes of checks while no node answers and the limits are not known.
func (f *fallback) effect(m Mode) string {
	switch all := f.rules[quota.LimitName{}]; {
	case len(f.rules) == 1 && all != nil && all.Hard:
		return "requests are refused"
	case len(f.rules) > 0:
		return "WithDefaults decides"
	case m == Remote:
		return "checks return an error"
	}
	return "requests are not limited"
}

func (d Default) rule() (*ownRule, error) {
	r := &ownRule{Default: d}
	if d.Namespace != "" {
		if err := quota.CheckName("namespace", d.Namespace); err != nil {
			return nil, err
		}
	}
	if d.Limit != "" {
		if err := quota.CheckName("limit", d.Limit); err != nil {
			return nil, err
		}
		if d.Namespace == "" {
			return nil, fmt.Errorf("namespace: is empty; every limit has one")
		}
	}
	if d.Hard {
		return r, nil
	}
	var err error
	if r.rate, err = quota.ParseRate(d.Rate); err != nil {
		return nil, err
	}
	if d.Burst < 0 || d.Burst > quota.MaxTokens {
		return nil, fmt.Errorf("burst: %d; must be 0 to %d", d.Burst, quota.MaxTokens)
	}
	if r.Burst == 0 {
		r.Burst = max(1, r.rate.PerSecond().Tokens())
	}
	return r, nil
}

func (f *fallback) find(n quota.LimitName) *ownRule {
	for _, at := range [...]quota.LimitName{n, {Namespace: n.Namespace}, {}} {
		if r := f.rules[at]; r != nil {
			return r
		}
	}
	return nil
}

// has reports whether one of the client's own limits applies.
func (f *fallback) has(n quota.LimitName) bool { return f.find(n) != nil }

// decide decides one check. A cost of 0 charges nothing and is decided like a cost of 1.
func (f *fallback) decide(k quota.Key, cost int64) Result {
	res := Result{Allowed: true, Why: WhyOpen, Mode: ModeFallback, Limit: Limit{Namespace: k.Namespace, Name: k.LimitName.Limit}}
	r := f.find(k.LimitName)
	if r == nil {
		return res
	}
	res.Limit.Hard = r.Hard
	if r.Hard {
		res.Allowed, res.Why, res.RetryAfter = false, WhyCutOff, time.Second
		return res
	}
	res.Limit.Rate, res.Limit.Burst = r.rate.String(), r.Burst
	if cost > r.Burst {
		res.Allowed, res.Why, res.RetryAfter = false, WhyOverBurst, Never
		return res
	}
	f.charge(k, r, cost, &res)
	res.Policies = []Policy{{Name: res.Limit.Name, Quota: r.Burst, Window: windowOf(r.rate, r.Burst), Remaining: res.Remaining, ResetAfter: res.ResetAfter}}
	return res
}

// passes decides for a caller that wants a boolean and got an error instead.
func (f *fallback) passes(k quota.Key, cost int64, err error) bool {
	if errors.Is(err, ErrInvalid) {
		return !f.failClosed
	}
	return !errors.Is(err, ErrUseAcquire) && f.decide(k, cost).Allowed
}

func (f *fallback) charge(k quota.Key, r *ownRule, cost int64, res *Result) {
	now, burst := f.clock.now(), quota.FromTokens(r.Burst)
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.keys[k]
	if b == nil {
		b = &ownBucket{limiter.NewBucket(burst, now), r}
		switch {
		case len(f.keys) < maxFallbackKeys || f.dropFull(now):
			k.Key = strings.Clone(k.Key) // the caller's may share a large buffer
			f.keys[k] = b
		case f.failClosed:
			res.Allowed, res.Why, res.RetryAfter = false, WhyTooManyKeys, time.Second
			return
		}
	}
	res.Why = WhyFixedRate
	if cost == 0 {
		b.Refill(now, r.rate, burst)
		res.Allowed = b.Level() >= quota.Token
	} else {
		res.Allowed = b.Take(now, r.rate, burst, quota.FromTokens(cost))
	}
	res.Remaining, res.ResetAfter = b.Level().Tokens(), r.rate.TimeFor(burst-b.Level())
	if !res.Allowed {
		res.Why, res.RetryAfter = WhyOverLimit, r.rate.TimeFor(quota.FromTokens(max(cost, 1))-b.Level())
	}
}

// giveBack gives back what decide has charged.
func (f *fallback) giveBack(k quota.Key, cost int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b := f.keys[k]; b != nil {
		b.Add(quota.FromTokens(cost))
		b.Cap(quota.FromTokens(b.rule.Burst))
	}
}

// dropFull drops full buckets, which equal new ones, and reports whether there is room then.
func (f *fallback) dropFull(now quota.Time) bool {
	if now.Sub(f.full) < dropEvery {
		return false
	}
	f.full = now
	for k, b := range f.keys {
		if burst := quota.FromTokens(b.rule.Burst); !b.full(now, burst) {
			continue
		}
		delete(f.keys, k)
	}
	return len(f.keys) < maxFallbackKeys
}

// dropEvery is the shortest interval between searches for keys to drop.
const dropEvery = 100 * time.Millisecond

func (b *ownBucket) full(now quota.Time, burst quota.Units) bool {
	b.Refill(now, b.rule.rate, burst)
	return b.Level() >= burst
}
