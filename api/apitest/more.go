package apitest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/quota"
)

// Decide implements api.Node.
func (n *Node) Decide(reqs []quota.Request, out []quota.Decision) bool {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	if len(reqs) != len(out) {
		panic("the contract of Decide")
	}
	all := true
	for i, r := range reqs {
		out[i] = n.spend(r.Key, max(r.Cost, 1), 0)
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
			out[i] = n.spend(r.Key, max(r.Cost, 1), r.Cost)
		}
	}
	return all
}

// Batch implements api.Node.
func (n *Node) Batch() func([]quota.Call) { return Batch(n.Decide, n.Refund) }

// Batch returns a function that decides one call after the other.
func Batch(decide func(reqs []quota.Request, out []quota.Decision) bool, refund func(quota.Key, int64) quota.Decision) func([]quota.Call) {
	return func(calls []quota.Call) {
		for i := range calls {
			c := &calls[i]
			if c.Refund {
				c.Out[0], c.Allowed = refund(c.Requests[0].Key, c.Requests[0].Cost), true
			} else {
				c.Allowed = decide(c.Requests, c.Out)
			}
		}
	}
}

func (n *Node) bucket(k quota.Key) (*quota.Limit, quota.Key) {
	l, key := n.Active.Resolve(k.LimitName, k.Key)
	if l == nil {
		return nil, k
	}
	return l, quota.Key{LimitName: l.LimitName, Key: key}
}

// Refund implements api.Node.
func (n *Node) Refund(k quota.Key, cost int64) quota.Decision {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	l, k := n.bucket(k)
	if l == nil {
		return quota.Decision{Why: quota.WhyNoLimit}
	}
	n.Used[k] = max(n.Used[k]-cost, 0)
	return quota.Decision{Allowed: true, Limit: l, Remaining: l.Burst - n.Used[k]}
}

// Charge implements api.Node.
func (n *Node) Charge(k quota.Key, used int64) (int64, quota.Decision) {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	l, k := n.bucket(k)
	if l == nil {
		return 0, quota.Decision{Why: quota.WhyNoLimit}
	}
	booked := min(used, 2*l.Burst-n.Used[k])
	n.Used[k] += booked
	return booked, quota.Decision{Allowed: true, Limit: l, Why: quota.WhyHeld, Remaining: max(l.Burst-n.Used[k], 0), RetryAfter: time.Second}
}

// Reserve implements api.Node.
func (n *Node) Reserve(owner string, reqs []quota.Request, ttl time.Duration, out []quota.Decision) (quota.Reservation, bool, error) {
	if n.Full {
		return quota.Reservation{}, false, quota.ErrTooManyReservations
	}
	allowed := n.Decide(reqs, out)
	n.Mu.Lock()
	defer n.Mu.Unlock()
	n.Owner = owner
	if ttl == 0 {
		ttl = quota.DefaultLease
	}
	r := quota.Reservation{Handle: fmt.Sprintf("n1.7-%d", len(n.open)), Expires: ttl}
	if allowed {
		n.open[r.Handle] = reqs
	}
	return r, allowed, nil
}

// ReservedIn implements api.Node.
func (n *Node) ReservedIn(_ context.Context, handle string) (out []string, err error) {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	reqs, ok := n.open[handle]
	if !ok {
		return nil, quota.ErrNoReservation
	}
	for i := range reqs {
		out = append(out, reqs[i].Key.Namespace)
	}
	return out, nil
}

// Settle implements api.Node.
func (n *Node) Settle(_ context.Context, handle string, used int64) error {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	if _, ok := n.open[handle]; !ok {
		return fmt.Errorf("node n1: %w", quota.ErrNoReservation)
	}
	delete(n.open, handle)
	n.Settled[handle] = used
	return nil
}

// Renew implements api.Node.
func (n *Node) Renew(_ context.Context, handle string, ttl time.Duration) error {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	if _, ok := n.open[handle]; !ok {
		return quota.ErrNoReservation
	}
	n.Settled[handle+" renewed"] = int64(ttl)
	return nil
}

func (n *Node) remember(c quota.Change) {
	n.past[n.Active.Version] = n.Active.All()
	n.Versions = append([]quota.Version{{
		Number: n.Active.Version, At: quota.Time(1_800_000_000e9), By: c.By, Comment: c.Comment, RollbackTo: c.RollbackTo,
		Limits: len(n.Active.All()), Added: 1, Changed: 2, Removed: 3,
	}}, n.Versions...)
}

// ChangeLimits implements api.Node.
func (n *Node) ChangeLimits(_ context.Context, c quota.Change) (quota.Version, bool, error) {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	if n.SetErr != nil {
		return quota.Version{}, false, n.SetErr
	}
	if n.Rivals > 0 {
		n.Rivals--
		set, _ := quota.NewLimits(n.Active.Version+1, n.Active.All()) // cannot fail: the limits were valid before
		n.Active = set
		n.remember(quota.Change{By: "rival"})
	}
	if c.Expect != quota.AnyVersion && c.Expect != int64(n.Active.Version) {
		return quota.Version{}, false, &quota.ConflictError{Expected: c.Expect, Current: n.Active.Version, By: n.Versions[0].By}
	}
	set, err := quota.NewLimits(n.Active.Version+1, c.Limits)
	if err != nil {
		return quota.Version{}, false, err
	}
	n.Active = set
	n.remember(c)
	return n.Versions[0], true, nil
}

// LimitVersions implements api.Node.
func (n *Node) LimitVersions(_ context.Context, before uint64, most int) (out []quota.Version, err error) {
	for _, v := range n.Versions {
		if (before == 0 || v.Number < before) && len(out) < most {
			out = append(out, v)
		}
	}
	return out, n.SetErr
}

// LimitsAt implements api.Node.
func (n *Node) LimitsAt(_ context.Context, version uint64) (quota.Version, []quota.Limit, error) {
	list, ok := n.past[version]
	if !ok {
		return quota.Version{}, nil, &quota.UnknownVersionError{Version: version, Oldest: n.Versions[len(n.Versions)-1].Number, Newest: n.Active.Version}
	}
	return quota.Version{Number: version}, list, nil
}

// SetOverrides implements api.Node.
func (n *Node) SetOverrides(_ context.Context, list []quota.Override) error {
	if n.SetErr != nil {
		return n.SetErr
	}
	n.Overrides = append(n.Overrides, list...)
	slices.SortFunc(n.Overrides, func(a, b quota.Override) int { return a.Key.Compare(b.Key) })
	return nil
}

// DeleteOverrides implements api.Node.
func (n *Node) DeleteOverrides(_ context.Context, keys []quota.Key) (int, error) {
	before := len(n.Overrides)
	n.Overrides = slices.DeleteFunc(n.Overrides, func(o quota.Override) bool { return slices.Contains(keys, o.Key) })
	return before - len(n.Overrides), n.SetErr
}

// ListOverrides implements api.Node.
func (n *Node) ListOverrides(name quota.LimitName, after quota.Key, most int) (out []quota.Override, total int) {
	for _, o := range n.Overrides {
		if (name.Namespace == "" || name.Namespace == o.Key.Namespace) && o.Key.Compare(after) > 0 && len(out) < most {
			out = append(out, o)
		}
	}
	return out, len(n.Overrides)
}

// Override implements api.Node.
func (n *Node) Override(k quota.Key) *quota.Override {
	for i := range n.Overrides {
		if n.Overrides[i].Key == k {
			return &n.Overrides[i]
		}
	}
	return nil
}

// Key implements api.Node.
func (n *Node) Key(_ context.Context, k quota.Key) ([]*quoratev1.KeyRate, error) {
	if n.RateErr != nil {
		return nil, n.RateErr
	}
	return []*quoratev1.KeyRate{{Namespace: k.Namespace, Limit: k.LimitName.Limit, Key: k.Key, Remaining: 4, Rule: &quoratev1.Limit{Rate: "9/m", Burst: 9}}}, nil
}

// ResetKey implements api.Node.
func (n *Node) ResetKey(_ context.Context, k quota.Key) error {
	n.Reset = append(n.Reset, k)
	return n.RateErr
}

// WatchAll implements api.Node.
func (n *Node) WatchAll(f quota.EventFilter, _ string, _ int) (<-chan *quoratev1.WatchResponse, func() uint64, func()) {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	n.Filter = f
	out, end := make(chan *quoratev1.WatchResponse), make(chan struct{})
	go func() {
		for {
			select {
			case e := <-n.Events:
				select {
				case out <- &quoratev1.WatchResponse{Event: apiproto.Event(&e), Node: "n1"}:
				case <-end:
					return
				}
			case <-end:
				return
			}
		}
	}()
	return out, func() uint64 { return n.Lost }, func() {
		close(end)
		n.Stopped <- struct{}{}
	}
}

// ListAuditEntries implements api.Node.
func (n *Node) ListAuditEntries(_ context.Context, req *quoratev1.ListAuditEntriesRequest) (*quoratev1.ListAuditEntriesResponse, error) {
	return &quoratev1.ListAuditEntriesResponse{
		Entries:      []*quoratev1.AuditEntry{{Node: "n1", Identity: "client:ci", Method: "/quorate.v1.LimitService/ApplyLimits", Result: "ok", What: req.Text}},
		MissingNodes: []*quoratev1.MissingNode{{Node: "n2", Reason: "no answer"}},
	}, nil
}

// FormatLimits writes limits as lines that ParseLimits reads.
func FormatLimits(limits []quota.Limit) []byte {
	var b []byte
	for _, l := range limits {
		b = fmt.Appendf(b, "%v %v %d\n", l.LimitName, l.Rate, l.Burst)
	}
	return b
}

// LintLimits reports limits with a burst of 0, which refuse every request.
func LintLimits(limits []quota.Limit) (out []string) {
	for _, l := range limits {
		if l.Burst == 0 {
			out = append(out, fmt.Sprintf("%v: refuses everything", l.LimitName))
		}
	}
	return out
}

// ErrDisk is an error that the API does not handle specially.
var ErrDisk = errors.New("disk full")
