package dataplane

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/aggregator"
	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/fairshare"
	"github.com/quorate/quorate/internal/quota"
)

// Bounds on reservations.
const (
	maxReservations      = 1_000_000 // open on one node
	maxReservationsOfOne = maxReservations / 4
	maxLease             = 24 * time.Hour
)

// reserved is a reservation: what a call took and has not settled yet.
type reserved struct {
	owner      string
	namespaces []string // the namespaces of its requests, without duplicates
	reqs       []quota.Request
	taken      *aggregator.Taken
	expires    quota.Time
	ttl        time.Duration // initial lifetime
}

// reservations holds the reservations that this node made. They live in its memory only. When the node
// dies, reserved tokens count as used. Requests in flight count as released: at once under soft, after
// the limit's lease under hard.
type reservations struct {
	places *fairshare.Pool
	mu     sync.Mutex
	open   map[handle]*reserved
}

func (r *reservations) init() {
	r.places, r.open = fairshare.New(maxReservations, maxReservationsOfOne), map[handle]*reserved{}
}

// handle identifies a reservation on its node. It is random, so that callers cannot guess the handles
// of others.
type handle [16]byte

// emptyHandle is the handle of every reservation that took nothing. No node stores those; settling or
// renewing one does nothing.
var emptyHandle handle

// handleText encodes handles as letters and digits.
var handleText = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Reserve takes the cost of all requests, or of none, until the reservation is settled. A reservation
// that is neither settled nor renewed within ttl (0: the shortest lease of its limits) is given back.
// Reserve is also how callers acquire limits that count requests in flight. It returns false and no
// handle if a limit refuses. owner is the identity of the caller, empty if unknown. Reserve returns
// quota.ErrTooManyReservations if owner, or all callers together, have the maximum number open.
func (d *Decider) Reserve(owner string, reqs []quota.Request, ttl time.Duration, out []quota.Decision) (quota.Reservation, bool, error) {
	switch d.reserved.places.TryAcquire(owner, 1) {
	case fairshare.Total:
		return quota.Reservation{}, false, quota.ErrTooManyReservations
	case fairshare.Each:
		return quota.Reservation{}, false, fmt.Errorf("%w for %s", quota.ErrTooManyReservations, owner)
	}
	made := d.reserve(owner, reqs, ttl, out)
	if made == nil || len(made.reqs) == 0 {
		d.reserved.places.Release(owner, 1)
	}
	if made == nil {
		return quota.Reservation{}, false, nil
	}
	return quota.Reservation{Handle: d.handleOf(d.reserved.add(made)), Expires: made.ttl}, true, nil
}

// reserve decides the requests and returns what they took, or nil if a limit refuses.
func (d *Decider) reserve(owner string, reqs []quota.Request, ttl time.Duration, out []quota.Decision) *reserved {
	c := callPool.Get().(*pooled)
	defer callPool.Put(c)
	since := d.now()
	c.Reset(reqs, out)
	c.Acquires = true
	if !d.decide(c) {
		return nil
	}
	taken := c.Taken(since)
	if ttl <= 0 {
		ttl = maxLease
		for i := range out {
			ttl = min(ttl, out[i].Limit.LeaseOrDefault())
		}
	}
	ttl = min(ttl, maxLease)
	return &reserved{owner: owner, namespaces: namespaces(reqs), reqs: charged(reqs, out), taken: taken, expires: d.now().Add(ttl), ttl: ttl}
}

func namespaces(reqs []quota.Request) (out []string) {
	for i := range reqs {
		if ns := reqs[i].Key.Namespace; !slices.Contains(out, ns) {
			out = append(out, strings.Clone(ns))
		}
	}
	return out
}

// charged returns copies of the requests that were charged. A limit that is not enforced takes nothing.
func charged(reqs []quota.Request, out []quota.Decision) []quota.Request {
	var kept []quota.Request
	for i, q := range reqs {
		if q.Cost == 0 || uncounted(&out[i]) {
			continue
		}
		q.Key = quota.Key{
			LimitName: quota.LimitName{Namespace: strings.Clone(q.Key.Namespace), Limit: strings.Clone(q.Key.LimitName.Limit)}, Key: strings.Clone(q.Key.Key),
		}
		kept = append(kept, q)
	}
	return kept
}

// uncounted reports whether an admission took nothing.
func uncounted(d *quota.Decision) bool {
	switch d.Why {
	case quota.WhyNotEnforced, quota.WhyUnlimited, quota.WhyOpen, quota.WhyTooManyKeys:
		return true
	}
	return d.Shadow
}

// add stores a reservation, unless it took nothing: then there is nothing to settle.
func (r *reservations) add(v *reserved) (id handle) {
	if len(v.reqs) == 0 {
		return emptyHandle
	}
	_, _ = rand.Read(id[:]) // never fails
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open[id] = v
	return id
}

// remove removes a reservation. The caller holds r.mu.
func (r *reservations) remove(id handle, v *reserved) {
	delete(r.open, id)
	r.places.Release(v.owner, 1)
}

// namespaces returns the namespaces of an unexpired reservation, or nil.
func (r *reservations) namespaces(id handle, now quota.Time) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v := r.open[id]; v != nil && now < v.expires {
		return v.namespaces
	}
	return nil
}

// removeOpen removes and returns an unexpired reservation, or nil.
func (r *reservations) removeOpen(id handle, now quota.Time) *reserved {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.open[id]
	if v == nil || now >= v.expires { // expired gives back what it took
		return nil
	}
	r.remove(id, v)
	return v
}

// expired removes and returns the reservations that have expired.
func (r *reservations) expired(now quota.Time) []*reserved {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*reserved
	for id, v := range r.open {
		if now >= v.expires {
			r.remove(id, v)
			out = append(out, v)
		}
	}
	return out
}

// handleOf returns the public form of a handle: the node that holds the reservation, and its handle there.
func (d *Decider) handleOf(id handle) string {
	return string(d.cfg.Self) + "." + handleText.EncodeToString(id[:])
}

// holderOf parses a public handle into the node that made the reservation and the handle there.
func holderOf(text string) (node quota.NodeID, id handle, err error) {
	i := strings.LastIndexByte(text, '.')
	if i <= 0 || len(text)-i-1 != handleText.EncodedLen(len(id)) {
		return "", id, quota.ErrNoReservation
	}
	if _, err := handleText.Decode(id[:], []byte(text[i+1:])); err != nil {
		return "", id, quota.ErrNoReservation
	}
	return quota.NodeID(text[:i]), id, nil
}

// ReservedIn returns the namespaces of a reservation, without duplicates. To end or renew it, a caller
// needs the permission in all of them. It returns the same errors as Settle.
func (d *Decider) ReservedIn(ctx context.Context, handle string) ([]string, error) {
	node, id, err := holderOf(handle)
	switch {
	case err != nil:
		return nil, err
	case id == emptyHandle:
		return nil, nil
	}
	if node == d.cfg.Self {
		spaces := d.reserved.namespaces(id, d.now())
		if spaces == nil {
			return nil, quota.ErrNoReservation
		}
		return spaces, nil
	}
	res, err := d.atHolder(ctx, node, &peerv1.CallSettle{Handle: handle, Look: true})
	return res.GetNamespaces(), err
}

// Settle ends a reservation and books the tokens that were really used: it gives back the rest, and
// charges what was used beyond the reservation. A used below 0 means all that was reserved. Settle
// releases what was acquired of limits that count requests in flight. Any node accepts the call. It
// returns quota.ErrNoReservation if the handle is already settled or has expired, or its node is gone.
func (d *Decider) Settle(ctx context.Context, handle string, used int64) error {
	return d.end(ctx, &peerv1.CallSettle{Handle: handle, Used: used})
}

// initialTTL, as the time for which to renew, stands for the initial lifetime of the reservation. It is shorter than
// any time that a caller can request.
const initialTTL = time.Nanosecond

// Renew extends a reservation to ttl from now (at most 24h; 0: its initial lifetime).
func (d *Decider) Renew(ctx context.Context, handle string, ttl time.Duration) error {
	return d.end(ctx, &peerv1.CallSettle{Handle: handle, RenewNanos: int64(min(max(ttl, initialTTL), maxLease))})
}

func (d *Decider) end(ctx context.Context, c *peerv1.CallSettle) error {
	node, id, err := holderOf(c.Handle)
	switch {
	case err != nil:
		return err
	case id == emptyHandle:
		return nil
	case node == d.cfg.Self:
		return d.settle(c)
	}
	_, err = d.atHolder(ctx, node, c)
	return err
}

// atHolder forwards a settle call to the node that made the reservation.
func (d *Decider) atHolder(ctx context.Context, node quota.NodeID, c *peerv1.CallSettle) (*peerv1.CallSettleResult, error) {
	if !d.node.Up(node) {
		return nil, quota.ErrNoReservation
	}
	res, err := d.node.Call(ctx, node, &peerv1.Call{Body: &peerv1.Call_Settle{Settle: c}})
	if err != nil {
		return nil, &quota.NoLeaderError{Reason: fmt.Sprintf("the node that made the reservation did not answer: %v", err)}
	}
	if !res.GetSettleResult().GetFound() {
		return nil, quota.ErrNoReservation
	}
	return res.GetSettleResult(), nil
}

// onSettle answers a settle call from another node.
func (d *Decider) onSettle(c *peerv1.CallSettle) *peerv1.CallSettleResult {
	if !c.Look {
		return &peerv1.CallSettleResult{Found: d.settle(c) == nil}
	}
	node, id, err := holderOf(c.Handle)
	if err != nil || node != d.cfg.Self {
		return &peerv1.CallSettleResult{}
	}
	spaces := d.reserved.namespaces(id, d.now())
	return &peerv1.CallSettleResult{Found: spaces != nil, Namespaces: spaces}
}

// settle settles or renews a reservation of this node.
func (d *Decider) settle(c *peerv1.CallSettle) error {
	node, id, err := holderOf(c.Handle)
	if err != nil || node != d.cfg.Self {
		return quota.ErrNoReservation
	}
	if c.RenewNanos > 0 {
		return d.renew(id, time.Duration(c.RenewNanos))
	}
	v := d.reserved.removeOpen(id, d.now())
	if v == nil {
		return quota.ErrNoReservation
	}
	d.book(v, c.Used)
	return nil
}

func (d *Decider) renew(id handle, ttl time.Duration) error {
	d.reserved.mu.Lock()
	defer d.reserved.mu.Unlock()
	v, now := d.reserved.open[id], d.now()
	if v == nil || now >= v.expires {
		return quota.ErrNoReservation
	}
	if ttl == initialTTL {
		ttl = v.ttl
	}
	v.expires = now.Add(ttl)
	return nil
}

// book books the usage of a reservation. Unused tokens return to the counters and windows that they were taken from,
// unless these are gone; tokens used beyond the reservation are charged now.
func (d *Decider) book(v *reserved, used int64) {
	limits := d.Limits()
	for i := range v.reqs {
		q := &v.reqs[i]
		l, _ := limits.Resolve(q.Key.LimitName, q.Key.Key)
		switch {
		case l == nil:
		case l.Kind == quota.Concurrency:
			d.agg.Release(d.now, q.Key.LimitName, q.Key.Key, q.Cost, v.taken)
		case used >= 0 && used < q.Cost:
			d.agg.RefundTaken(d.now, q.Key.LimitName, q.Key.Key, q.Cost-used, v.taken)
		case used > q.Cost:
			d.agg.Charge(d.now, q.Key.LimitName, q.Key.Key, used-q.Cost)
		}
	}
	d.Wake()
}

// expireEvery is the interval between searches for expired reservations.
const expireEvery = time.Second

// expireLoop gives back expired reservations once per expireEvery.
func (d *Decider) expireLoop() {
	tick := time.NewTicker(expireEvery)
	defer tick.Stop()
	for {
		select {
		case <-d.ctx.Done():
			return
		case <-tick.C:
			d.expire(d.now())
		}
	}
}

// expire gives back the reservations that have expired by now.
func (d *Decider) expire(now quota.Time) {
	for _, v := range d.reserved.expired(now) {
		d.stats.expired.Inc()
		d.book(v, 0)
	}
}
