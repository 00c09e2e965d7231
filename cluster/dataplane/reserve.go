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

// Bounds of reservations.
const (
	maxReservations      = 1_000_000 // open on one node
	maxReservationsOfOne = maxReservations / 4
	maxLease             = 24 * time.Hour
)

// reserved is one reservation: what a call took, until it is settled.
type reserved struct {
	owner   string
	spaces  []string // the namespaces that it was asked for in, each once
	reqs    []quota.Request
	taken   *aggregator.Taken
	expires quota.Time
	ttl     time.Duration // from when it was made
}

// reservations are those that this node made. They are in its memory alone: when
// it dies, what was reserved counts as used, and what was in flight as released
// at once under soft, after the limit's lease under hard.
type reservations struct {
	places *fairshare.Pool
	mu     sync.Mutex
	open   map[handle]*reserved
}

func (r *reservations) init() {
	r.places, r.open = fairshare.New(maxReservations, maxReservationsOfOne), map[handle]*reserved{}
}

// handle is what a reservation is known by on its node: random, so that nobody can guess
// another's.
type handle [16]byte

// tookNothing is the handle of all reservations that took nothing. No node keeps those, and to
// settle or renew one changes nothing.
var tookNothing handle

// handleText writes handles with letters and digits.
var handleText = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Reserve takes what the requests cost, all or nothing, until it is settled. One
// that is not settled or renewed within ttl (0: the shortest lease of its
// limits) is given back. Limits that count what is in flight are acquired this
// way. The answer is false, and there is no handle, if a limit refuses. owner is the
// identity of the caller, empty if unknown: if it, or all callers, have as many
// reservations open as they may, the error is quota.ErrTooManyReservations.
func (d *Decider) Reserve(owner string, reqs []quota.Request, ttl time.Duration, out []quota.Decision) (quota.Reservation, bool, error) {
	switch d.reserved.places.Take(owner, 1) {
	case fairshare.Total:
		return quota.Reservation{}, false, quota.ErrTooManyReservations
	case fairshare.Each:
		return quota.Reservation{}, false, fmt.Errorf("%w for %s", quota.ErrTooManyReservations, owner)
	}
	made := d.reserve(owner, reqs, ttl, out)
	if made == nil || len(made.reqs) == 0 {
		d.reserved.places.Give(owner, 1)
	}
	if made == nil {
		return quota.Reservation{}, false, nil
	}
	return quota.Reservation{Handle: d.handleOf(d.reserved.add(made)), Expires: made.ttl}, true, nil
}

// reserve decides the requests and returns what was taken, nil if a limit refuses.
func (d *Decider) reserve(owner string, reqs []quota.Request, ttl time.Duration, out []quota.Decision) *reserved {
	c := callPool.Get().(*pooled)
	defer callPool.Put(c)
	since := d.now()
	c.Reset(reqs, out)
	c.Acquires = true
	if !d.decide(&c.Call, nil) {
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
	return &reserved{owner: owner, spaces: namespaces(reqs), reqs: charged(reqs, out), taken: taken, expires: d.now().Add(ttl), ttl: ttl}
}

func namespaces(reqs []quota.Request) (out []string) {
	for i := range reqs {
		if ns := reqs[i].Key.Namespace; !slices.Contains(out, ns) {
			out = append(out, strings.Clone(ns))
		}
	}
	return out
}

// charged copies the requests that were charged: limits that are not enforced
// took nothing.
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

// add keeps a reservation, unless it took nothing: there is nothing to settle.
func (r *reservations) add(v *reserved) (id handle) {
	if len(v.reqs) == 0 {
		return tookNothing
	}
	_, _ = rand.Read(id[:]) // never fails
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open[id] = v
	return id
}

// remove forgets a reservation. r.mu is held.
func (r *reservations) remove(id handle, v *reserved) {
	delete(r.open, id)
	r.places.Give(v.owner, 1)
}

// namespaces returns those of a reservation; nil if there is none, or no more.
func (r *reservations) namespaces(id handle, now quota.Time) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v := r.open[id]; v != nil && now < v.expires {
		return v.spaces
	}
	return nil
}

// removeOpen removes and returns a reservation; nil if there is none, or no more.
func (r *reservations) removeOpen(id handle, now quota.Time) *reserved {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.open[id]
	if v == nil || now >= v.expires { // expired gives it back
		return nil
	}
	r.remove(id, v)
	return v
}

// expired removes and returns what nobody has settled.
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

// handleOf names a reservation for callers: the node that has it, and its handle there.
func (d *Decider) handleOf(id handle) string {
	return string(d.cfg.Self) + "." + handleText.EncodeToString(id[:])
}

// holderOf returns the node that made a reservation, and its handle there.
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

// ReservedIn returns the namespaces of a reservation, each once: who ends or renews it needs the
// permission in all of them. Errors are as of Settle.
func (d *Decider) ReservedIn(ctx context.Context, handle string) ([]string, error) {
	node, id, err := holderOf(handle)
	switch {
	case err != nil:
		return nil, err
	case id == tookNothing:
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

// Settle ends a reservation and books what was really used of it: the rest is
// given back, and what was used beyond it is charged. used below 0 is all that
// was reserved. What was acquired of limits that count what is in flight is
// released. Any node takes the call; quota.ErrNoReservation if the handle has
// been settled, has expired, or its node is gone.
func (d *Decider) Settle(ctx context.Context, handle string, used int64) error {
	return d.end(ctx, &peerv1.CallSettle{Handle: handle, Used: used})
}

// asAtFirst renews for as long as the reservation lasted when it was made. No caller can name so
// short a time.
const asAtFirst = time.Nanosecond

// Renew puts the end of a reservation off to ttl from now (at most 24h; 0: as long as at first).
func (d *Decider) Renew(ctx context.Context, handle string, ttl time.Duration) error {
	return d.end(ctx, &peerv1.CallSettle{Handle: handle, RenewNanos: int64(min(max(ttl, asAtFirst), maxLease))})
}

func (d *Decider) end(ctx context.Context, c *peerv1.CallSettle) error {
	node, id, err := holderOf(c.Handle)
	switch {
	case err != nil:
		return err
	case id == tookNothing:
		return nil
	case node == d.cfg.Self:
		return d.settle(c)
	}
	_, err = d.atHolder(ctx, node, c)
	return err
}

// atHolder has another node answer that made the reservation.
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

// onSettle answers another node.
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
	if ttl == asAtFirst {
		ttl = v.ttl
	}
	v.expires = now.Add(ttl)
	return nil
}

// book books what was used of a reservation. What was not used comes back in the windows
// that it was taken in; what was used beyond it is charged now.
func (d *Decider) book(v *reserved, used int64) {
	limits := d.Limits()
	for i := range v.reqs {
		q := &v.reqs[i]
		l, _ := limits.Resolve(q.Key.LimitName, q.Key.Key)
		switch {
		case l == nil:
		case l.Kind == quota.Concurrency:
			d.agg.Release(d.now, q.Key.LimitName, q.Key.Key, q.Cost)
		case used >= 0 && used < q.Cost:
			d.agg.RefundTaken(d.now, q.Key.LimitName, q.Key.Key, q.Cost-used, v.taken)
		case used > q.Cost:
			d.agg.Charge(d.now, q.Key.LimitName, q.Key.Key, used-q.Cost)
		}
	}
	d.Wake()
}

// expireEvery is how often reservations are looked at that nobody may have settled in time.
const expireEvery = time.Second

// expireLoop gives back what nobody has settled in time.
func (d *Decider) expireLoop() {
	tick := time.NewTicker(expireEvery)
	defer tick.Stop()
	for {
		select {
		case <-d.stop:
			return
		case <-tick.C:
			d.expire(d.now())
		}
	}
}

// expire gives back what nobody has settled in time.
func (d *Decider) expire(now quota.Time) {
	for _, v := range d.reserved.expired(now) {
		d.stats.expired.Inc()
		d.book(v, 0)
	}
}
