package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
)

func (n *fakeNode) Decide(reqs []quota.Request, out []quota.Decision) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(reqs) != len(out) || len(reqs) > quota.MaxRequests {
		panic("the contract of Decide")
	}
	all := true
	for i, r := range reqs {
		out[i] = n.take(r.Key, max(r.Cost, 1), 0)
		if out[i].Why == quota.WhyOverLimit && !out[i].Allowed && r.MaxWait > out[i].RetryAfter {
			out[i].Allowed, out[i].Why, out[i].Wait, out[i].RetryAfter = true, quota.WhyReserved, out[i].RetryAfter, 0
		}
		if all = out[i].Allowed; !all {
			clear(out[i+1:])
			return false
		}
	}
	for i, r := range reqs {
		if all && out[i].Wait == 0 {
			out[i] = n.take(r.Key, max(r.Cost, 1), r.Cost)
		}
	}
	return all
}

func (n *fakeNode) bucket(k quota.Key) (*quota.Limit, quota.Key) {
	l, key := n.limits.Resolve(k.LimitName, k.Key)
	if l == nil {
		return nil, k
	}
	return l, quota.Key{LimitName: l.LimitName, Key: key}
}

func (n *fakeNode) Refund(k quota.Key, cost int64) quota.Decision {
	n.mu.Lock()
	defer n.mu.Unlock()
	l, k := n.bucket(k)
	if l == nil {
		return quota.Decision{Why: quota.WhyNoLimit}
	}
	n.used[k] = max(n.used[k]-cost, 0)
	return quota.Decision{Allowed: true, Limit: l, Remaining: l.Burst - n.used[k]}
}

func (n *fakeNode) Charge(k quota.Key, used int64) (int64, quota.Decision) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l, k := n.bucket(k)
	if l == nil {
		return 0, quota.Decision{Why: quota.WhyNoLimit}
	}
	booked := min(used, 2*l.Burst-n.used[k])
	n.used[k] += booked
	return booked, quota.Decision{Allowed: true, Limit: l, Why: quota.WhyHeld, Remaining: max(l.Burst-n.used[k], 0), RetryAfter: time.Second}
}

func (n *fakeNode) Reserve(owner string, reqs []quota.Request, ttl time.Duration, out []quota.Decision) (quota.Reservation, bool, error) {
	if n.full {
		return quota.Reservation{}, false, quota.ErrTooManyReservations
	}
	allowed := n.Decide(reqs, out)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.owner = owner
	if ttl == 0 {
		ttl = quota.DefaultLease
	}
	r := quota.Reservation{Handle: fmt.Sprintf("n1.7-%d", len(n.open)), Expires: ttl}
	if allowed {
		n.open[r.Handle] = reqs
	}
	return r, allowed, nil
}

func (n *fakeNode) ReservedIn(_ context.Context, handle string) (out []string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	reqs, ok := n.open[handle]
	if !ok {
		return nil, quota.ErrNoReservation
	}
	for i := range reqs {
		out = append(out, reqs[i].Key.Namespace)
	}
	return out, nil
}

func (n *fakeNode) Settle(_ context.Context, handle string, used int64) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.open[handle]; !ok {
		return fmt.Errorf("node n1: %w", quota.ErrNoReservation)
	}
	delete(n.open, handle)
	n.settled[handle] = used
	return nil
}

func (n *fakeNode) Renew(_ context.Context, handle string, ttl time.Duration) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.open[handle]; !ok {
		return quota.ErrNoReservation
	}
	n.settled[handle+" renewed"] = int64(ttl)
	return nil
}

func (n *fakeNode) remember(c quota.Change) {
	n.past[n.limits.Version] = n.limits.All()
	n.history = append([]quota.Version{{
		Number: n.limits.Version, At: quota.Time(1_800_000_000e9), By: c.By, Comment: c.Comment, RollbackTo: c.RollbackTo,
		Limits: len(n.limits.All()), Added: 1, Changed: 2, Removed: 3,
	}}, n.history...)
}

func (n *fakeNode) ChangeLimits(_ context.Context, c quota.Change) (quota.Version, bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.setErr != nil {
		return quota.Version{}, false, n.setErr
	}
	if n.rivals > 0 {
		n.rivals--
		set, _ := quota.NewLimits(n.limits.Version+1, n.limits.All()) // were valid before
		n.limits = set
		n.remember(quota.Change{By: "rival"})
	}
	if c.Expect != quota.AnyVersion && c.Expect != int64(n.limits.Version) {
		return quota.Version{}, false, &quota.ConflictError{Expected: c.Expect, Current: n.limits.Version, By: n.history[0].By}
	}
	set, err := quota.NewLimits(n.limits.Version+1, c.Limits)
	if err != nil {
		return quota.Version{}, false, err
	}
	n.limits = set
	n.remember(c)
	return n.history[0], true, nil
}

func (n *fakeNode) LimitVersions(_ context.Context, before uint64, most int) (out []quota.Version, err error) {
	for _, v := range n.history {
		if (before == 0 || v.Number < before) && len(out) < most {
			out = append(out, v)
		}
	}
	return out, n.setErr
}

func (n *fakeNode) LimitsAt(_ context.Context, version uint64) (quota.Version, []quota.Limit, error) {
	list, ok := n.past[version]
	if !ok {
		return quota.Version{}, nil, &quota.UnknownVersionError{Version: version, Oldest: n.history[len(n.history)-1].Number, Newest: n.limits.Version}
	}
	return quota.Version{Number: version}, list, nil
}

func (n *fakeNode) SetOverrides(_ context.Context, list []quota.Override) error {
	if n.setErr != nil {
		return n.setErr
	}
	n.overrides = append(n.overrides, list...)
	slices.SortFunc(n.overrides, func(a, b quota.Override) int { return a.Key.Compare(b.Key) })
	return nil
}

func (n *fakeNode) DeleteOverrides(_ context.Context, keys []quota.Key) (int, error) {
	before := len(n.overrides)
	n.overrides = slices.DeleteFunc(n.overrides, func(o quota.Override) bool { return slices.Contains(keys, o.Key) })
	return before - len(n.overrides), n.setErr
}

func (n *fakeNode) ListOverrides(name quota.LimitName, after quota.Key, most int) (out []quota.Override, total int) {
	for _, o := range n.overrides {
		if (name.Namespace == "" || name.Namespace == o.Key.Namespace) && o.Key.Compare(after) > 0 && len(out) < most {
			out = append(out, o)
		}
	}
	return out, len(n.overrides)
}

func (n *fakeNode) Override(k quota.Key) *quota.Override {
	for i := range n.overrides {
		if n.overrides[i].Key == k {
			return &n.overrides[i]
		}
	}
	return nil
}

func (n *fakeNode) Key(_ context.Context, k quota.Key) ([]*quoratev1.KeyRate, error) {
	if n.rateErr != nil {
		return nil, n.rateErr
	}
	return []*quoratev1.KeyRate{{Namespace: k.Namespace, Limit: k.LimitName.Limit, Key: k.Key, Remaining: 4, Rule: &quoratev1.Limit{Rate: "9/m", Burst: 9}}}, nil
}

func (n *fakeNode) ResetKey(_ context.Context, k quota.Key) error {
	n.reset = append(n.reset, k)
	return n.rateErr
}

func (n *fakeNode) Watch(f quota.EventFilter, buffer int) (<-chan quota.Event, func() uint64, func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.filter = f
	return n.events, func() uint64 { return n.lost }, func() { n.stopped <- struct{}{} }
}

// formatTestLimits writes what parseTestLimits reads.
func formatTestLimits(limits []quota.Limit) []byte {
	var b []byte
	for _, l := range limits {
		b = fmt.Appendf(b, "%v %v %d\n", l.LimitName, l.Rate, l.Burst)
	}
	return b
}

func lintTestLimits(limits []quota.Limit) (out []string) {
	for _, l := range limits {
		if l.Burst == 0 {
			out = append(out, fmt.Sprintf("%v: refuses everything", l.LimitName))
		}
	}
	return out
}

var errDisk = errors.New("disk full")
