package cluster

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/quota"
)

// Bounds of reservations.
const (
	maxReservations = 1_000_000 // open on one node
	maxLease        = 24 * time.Hour
)

// reserved is one reservation: what a call took, until it is settled.
type reserved struct {
	reqs    []quota.Request
	expires quota.Time
	ttl     time.Duration // from when it was made
}

// reservations are those that this node made. They are in its memory alone: when
// it dies, what was reserved counts as used, and what was in flight as released
// at once under soft, after the limit's lease under hard.
type reservations struct {
	mu   sync.Mutex
	next uint64
	open map[uint64]*reserved
}

// Reserve takes what the requests cost, all or nothing, until it is settled. One
// that is not settled or renewed within ttl (0: the shortest lease of its
// limits) is given back. Limits that count what is in flight are acquired this
// way. The answer is false, and there is no handle, if a limit refuses; the
// error is quota.ErrTooManyReservations.
func (n *Node) Reserve(reqs []quota.Request, ttl time.Duration, out []quota.Decision) (quota.Reservation, bool, error) {
	if n.reserved.size() >= maxReservations {
		return quota.Reservation{}, false, quota.ErrTooManyReservations
	}
	c := calls.Get().(*pooled)
	defer calls.Put(c)
	if !n.decide(&c.Call, reqs, out, true) {
		return quota.Reservation{}, false, nil
	}
	if ttl <= 0 {
		ttl = maxLease
		for i := range out {
			ttl = min(ttl, out[i].Limit.LeaseOrDefault())
		}
	}
	ttl = min(ttl, maxLease)
	id := n.reserved.add(&reserved{reqs: charged(reqs, out), expires: n.clock.now().Add(ttl), ttl: ttl})
	return quota.Reservation{Handle: n.handleOf(id), Expires: ttl}, true, nil
}

// charged copies the requests that were charged: limits that are not enforced
// took nothing.
func charged(reqs []quota.Request, out []quota.Decision) []quota.Request {
	var kept []quota.Request
	for i, q := range reqs {
		if q.Cost == 0 || uncounted(&out[i]) {
			continue
		}
		q.Key = key(strings.Clone(q.Key.Namespace), strings.Clone(q.Key.LimitName.Limit), strings.Clone(q.Key.Key))
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

func (r *reservations) size() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.open)
}

func (r *reservations) add(v *reserved) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		r.open = map[uint64]*reserved{}
		// A number of an earlier life of the node must not name one of this.
		var seed [8]byte
		_, _ = rand.Read(seed[:]) // never fails
		r.next = binary.BigEndian.Uint64(seed[:]) >> 1
	}
	r.next++
	r.open[r.next] = v
	return r.next
}

// take removes and returns a reservation; nil if there is none, or no more.
func (r *reservations) take(id uint64, now quota.Time) *reserved {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.open[id]
	if v == nil || now >= v.expires { // expired gives it back
		return nil
	}
	delete(r.open, id)
	return v
}

// expired removes and returns what nobody has settled.
func (r *reservations) expired(now quota.Time) []*reserved {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*reserved
	for id, v := range r.open {
		if now >= v.expires {
			delete(r.open, id)
			out = append(out, v)
		}
	}
	return out
}

// handleOf names a reservation: the node that has it, and its number there.
func (n *Node) handleOf(id uint64) string {
	return string(n.cfg.Self) + "." + strconv.FormatUint(id, 36)
}

// holderOf returns the node that made a reservation, and its number there.
func holderOf(handle string) (node quota.NodeID, id uint64, err error) {
	i := strings.LastIndexByte(handle, '.')
	if i <= 0 {
		return "", 0, quota.ErrNoReservation
	}
	id, err = strconv.ParseUint(handle[i+1:], 36, 64)
	if err != nil {
		return "", 0, quota.ErrNoReservation
	}
	return quota.NodeID(handle[:i]), id, nil
}

// Settle ends a reservation and books what was really used of it: the rest is
// given back, and what was used beyond it is charged. used below 0 is all that
// was reserved. What was acquired of limits that count what is in flight is
// released. Any node takes the call; quota.ErrNoReservation if the handle has
// been settled, has expired, or its node is gone.
func (n *Node) Settle(ctx context.Context, handle string, used int64) error {
	return n.atHolder(ctx, &peerv1.CallSettle{Handle: handle, Used: used})
}

// asAtFirst renews for as long as the reservation lasted when it was made. No caller can name so
// short a time.
const asAtFirst = time.Nanosecond

// Renew puts the end of a reservation off to ttl from now (at most 24h; 0: as long as at first).
func (n *Node) Renew(ctx context.Context, handle string, ttl time.Duration) error {
	return n.atHolder(ctx, &peerv1.CallSettle{Handle: handle, RenewNanos: int64(min(max(ttl, asAtFirst), maxLease))})
}

func (n *Node) atHolder(ctx context.Context, c *peerv1.CallSettle) error {
	node, _, err := holderOf(c.Handle)
	if err != nil {
		return err
	}
	if node == n.cfg.Self {
		return n.settle(c)
	}
	if !n.routes.up(node) {
		return quota.ErrNoReservation
	}
	res, err := n.call(ctx, node, &peerv1.Call{Body: &peerv1.Call_Settle{Settle: c}})
	if err != nil {
		return &NoLeaderError{fmt.Sprintf("the node that made the reservation did not answer: %v", err)}
	}
	if !res.GetSettleResult().GetFound() {
		return quota.ErrNoReservation
	}
	return nil
}

// settle settles or renews a reservation of this node.
func (n *Node) settle(c *peerv1.CallSettle) error {
	node, id, err := holderOf(c.Handle)
	if err != nil || node != n.cfg.Self {
		return quota.ErrNoReservation
	}
	if c.RenewNanos > 0 {
		return n.renew(id, time.Duration(c.RenewNanos))
	}
	v := n.reserved.take(id, n.clock.now())
	if v == nil {
		return quota.ErrNoReservation
	}
	n.book(v, c.Used)
	return nil
}

func (n *Node) renew(id uint64, ttl time.Duration) error {
	n.reserved.mu.Lock()
	defer n.reserved.mu.Unlock()
	v, now := n.reserved.open[id], n.clock.now()
	if v == nil || now >= v.expires {
		return quota.ErrNoReservation
	}
	if ttl == asAtFirst {
		ttl = v.ttl
	}
	v.expires = now.Add(ttl)
	return nil
}

// book books what was used of a reservation.
func (n *Node) book(v *reserved, used int64) {
	limits := n.meta.current()
	for i := range v.reqs {
		q := &v.reqs[i]
		l, _ := limits.Resolve(q.Key.LimitName, q.Key.Key)
		switch {
		case l == nil:
		case l.Kind == quota.Concurrency:
			n.agg.Release(n.clock.now, q.Key.LimitName, q.Key.Key, q.Cost)
		case used >= 0 && used < q.Cost:
			n.agg.Refund(n.clock.now, q.Key.LimitName, q.Key.Key, q.Cost-used)
		case used > q.Cost:
			n.agg.Charge(n.clock.now, q.Key.LimitName, q.Key.Key, used-q.Cost)
		}
	}
	n.poke()
}

// expire gives back what nobody has settled in time.
func (n *Node) expire(now quota.Time) {
	for _, v := range n.reserved.expired(now) {
		n.stats.expired.Inc()
		n.book(v, 0)
	}
}
