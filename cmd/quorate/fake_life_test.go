package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/api/apitest"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/quota"
)

// at is the time of every event in the fake cluster.
const at = quota.Time(1_800_000_000e9)

func (c *fakeCluster) ChangeLimits(_ context.Context, ch quota.Change) (quota.Version, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range ch.Limits {
		if l.Namespace == "noleader" {
			return quota.Version{}, false, errNoLeader{}
		}
	}
	was, now := quota.Version{}, []quota.Limit(nil)
	if n := len(c.history); n > 0 {
		was, now = c.history[n-1], c.limits.All()
	}
	if ch.Expect != quota.AnyVersion && ch.Expect != int64(was.Number) {
		return was, false, &quota.ConflictError{Expected: ch.Expect, Current: was.Number, By: was.By}
	}
	if was.Number > 0 && string(config.FormatLimits(ch.Limits)) == string(config.FormatLimits(now)) {
		return was, false, nil
	}
	set, err := quota.NewLimits(was.Number+1, ch.Limits)
	if err != nil {
		return was, false, err
	}
	v := quota.Version{Number: was.Number + 1, At: at, By: ch.By, Comment: ch.Comment, RollbackTo: ch.RollbackTo, Limits: len(ch.Limits), Added: len(ch.Limits), Removed: len(now)}
	c.limits, c.past[v.Number], c.history = set, set.All(), append(c.history, v)
	return v, true, nil
}

func (c *fakeCluster) LimitVersions(_ context.Context, before uint64, most int) (out []quota.Version, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range slices.Backward(c.history) {
		if (before == 0 || v.Number < before) && len(out) < most {
			out = append(out, v)
		}
	}
	return out, nil
}

func (c *fakeCluster) LimitsAt(_ context.Context, version uint64) (quota.Version, []quota.Limit, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list, ok := c.past[version]
	if !ok {
		return quota.Version{}, nil, &quota.UnknownVersionError{Version: version, Oldest: 1, Newest: uint64(len(c.history))}
	}
	return quota.Version{Number: version}, list, nil
}

func (c *fakeCluster) SetOverrides(_ context.Context, list []quota.Override) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range list {
		o.At = at
		c.overrides = slices.DeleteFunc(c.overrides, func(old quota.Override) bool { return old.Key == o.Key })
		c.overrides = append(c.overrides, o)
	}
	slices.SortFunc(c.overrides, func(a, b quota.Override) int { return a.Key.Compare(b.Key) })
	return nil
}

func (c *fakeCluster) DeleteOverrides(_ context.Context, keys []quota.Key) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := len(c.overrides)
	c.overrides = slices.DeleteFunc(c.overrides, func(o quota.Override) bool { return slices.Contains(keys, o.Key) })
	return before - len(c.overrides), nil
}

func (c *fakeCluster) ListOverrides(name quota.LimitName, after quota.Key, most int) (out []quota.Override, total int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.overrides {
		if name.Namespace != "" && name.Namespace != o.Key.Namespace || name.Limit != "" && name.Limit != o.Key.LimitName.Limit {
			continue
		}
		total++
		if o.Key.Compare(after) > 0 && len(out) < most {
			out = append(out, o)
		}
	}
	return out, total
}

func (c *fakeCluster) Override(k quota.Key) *quota.Override {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.overrides, func(o quota.Override) bool { return o.Key == k })
	if i < 0 {
		return nil
	}
	return &c.overrides[i]
}

func (c *fakeCluster) Key(_ context.Context, k quota.Key) ([]*quoratev1.KeyRate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := &quoratev1.KeyRate{
		Namespace: k.Namespace, Limit: k.LimitName.Limit, Key: k.Key, Rate: 1.5, Admitted: 30, Refused: 2, Remaining: 20, Members: 3, Leader: "n2",
		Rule: &quoratev1.Limit{Rate: "10/s", Burst: 20, Kind: quoratev1.Kind_KIND_BUCKET},
	}
	if b := c.buckets[k]; b != nil {
		one.Remaining = b.Level().Tokens()
	}
	return []*quoratev1.KeyRate{one}, nil
}

func (c *fakeCluster) ResetKey(_ context.Context, k quota.Key) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.buckets, k)
	return nil
}

// WatchAll sends one event of each kind, and reports seven lost events and a missing node to a
// watcher with a buffer of one.
func (c *fakeCluster) WatchAll(f quota.EventFilter, _ string, buffer int) (<-chan *quoratev1.WatchResponse, func() uint64, func()) {
	events := make(chan *quoratev1.WatchResponse, 16)
	var missing []string
	if buffer == 1 {
		missing = []string{"n3"}
	}
	for i, kind := range quota.EventKinds() {
		e := quota.Event{
			At: at.Add(time.Duration(i) * time.Millisecond), Kind: kind, Cost: 2, Why: quota.WhyHeld, Near: i == 0,
			Key: quota.Key{LimitName: quota.LimitName{Namespace: "web", Limit: "per_client"}, Key: "evil\x1b[31m"}, Limit: quota.LimitName{Namespace: "web", Limit: "per_client"},
		}
		if kind == quota.EventLimitsChanged {
			e = quota.Event{At: e.At, Kind: kind}
		}
		if f.Matches(&e) {
			events <- &quoratev1.WatchResponse{Event: apiproto.Event(&e), Node: "n1", MissingNodes: missing}
		}
	}
	lost := uint64(0)
	if buffer == 1 {
		lost = 7
	}
	return events, func() uint64 { return lost }, func() {}
}

// ListAuditEntries returns three entries of two nodes, in two pages.
func (c *fakeCluster) ListAuditEntries(_ context.Context, req *quoratev1.ListAuditEntriesRequest) (*quoratev1.ListAuditEntriesResponse, error) {
	entry := func(second int, node, result, detail string) *quoratev1.AuditEntry {
		return &quoratev1.AuditEntry{
			Time: apiproto.Time(at.Add(time.Duration(second) * time.Second)), Node: node, RequestId: node, Identity: "client:evil\x1b[31m", Credential: "certificate", Address: "203.0.113.7",
			Method: "/quorate.v1.LimitService/ApplyLimits", What: req.Text, Result: result, Detail: detail,
		}
	}
	out := &quoratev1.ListAuditEntriesResponse{MissingNodes: []*quoratev1.MissingNode{{Node: "n3", Reason: "no answer"}}}
	if req.PageToken != "" {
		out.Entries = []*quoratev1.AuditEntry{entry(0, "n2", "ok", "")}
	} else {
		out.Entries, out.NextPageToken = []*quoratev1.AuditEntry{entry(2, "n1", "denied", "no role"), entry(1, "n2", "ok", "")}, "older"
	}
	if req.Since != nil && req.Since.AsTime().After(apiproto.Time(at).AsTime()) {
		out.NextPageToken = "" // what is older is not asked for
		out.Entries = slices.DeleteFunc(out.Entries, func(e *quoratev1.AuditEntry) bool { return e.Time.AsTime().Before(req.Since.AsTime()) })
	}
	return out, nil
}

func (c *fakeCluster) Batch() func([]quota.Call) { return apitest.Batch(c.Decide, c.Refund) }

func (c *fakeCluster) Decide(reqs []quota.Request, out []quota.Decision) bool {
	for i, r := range reqs {
		if r.Cost == 0 {
			out[i] = c.peek(r.Key)
		} else {
			out[i] = c.Check(r.Key, r.Cost)
		}
		if !out[i].Allowed {
			return false
		}
	}
	return true
}

func (c *fakeCluster) peek(k quota.Key) quota.Decision {
	l, ok := c.Limits().Find(k.LimitName)
	if !ok {
		return quota.Decision{Why: quota.WhyNoLimit}
	}
	return quota.Decision{Allowed: true, Limit: l, Why: quota.WhyHeld, Remaining: l.Burst}
}

func (c *fakeCluster) Refund(k quota.Key, _ int64) quota.Decision { return c.peek(k) }

func (c *fakeCluster) Charge(k quota.Key, used int64) (int64, quota.Decision) { return used, c.peek(k) }

func (c *fakeCluster) Reserve(_ string, reqs []quota.Request, ttl time.Duration, out []quota.Decision) (quota.Reservation, bool, error) {
	if !c.Decide(reqs, out) {
		return quota.Reservation{}, false, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := quota.Reservation{Handle: fmt.Sprintf("n1.%d", len(c.open)), Expires: max(ttl, time.Second)}
	c.open[r.Handle] = true
	return r, true, nil
}

func (c *fakeCluster) ReservedIn(context.Context, string) ([]string, error) { return nil, nil }

func (c *fakeCluster) Settle(_ context.Context, handle string, _ int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.open[handle] {
		return quota.ErrNoReservation
	}
	c.open[handle] = false
	return nil
}

func (c *fakeCluster) Renew(context.Context, string, time.Duration) error { return nil }
