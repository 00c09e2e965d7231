package dataplane

import (
	"sync"
	"time"

	"github.com/quorate/quorate/aggregator"
	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
)

// memberLoop drives the aggregator. No other goroutine may.
func (d *Decider) memberLoop() {
	timer := time.NewTimer(d.cfg.Sync)
	defer timer.Stop()
	sweep := d.now()
	var last gathering
	var room aggregator.Buffer
	for {
		select {
		case <-d.ctx.Done():
			return
		case f := <-d.inbox:
			d.work(f)
			d.node.Worked()
		case <-d.wake:
		case <-timer.C:
		}
		now := d.now()
		if more := last.left(now, d.waiters.Any()); more > 0 {
			timer.Reset(more)
			continue
		}
		d.send(d.agg.CollectInto(now, &room))
		d.node.Tick(now)
		if now.Sub(sweep) >= time.Second {
			sweep = now
			d.agg.Sweep(now)
		}
		timer.Reset(max(d.agg.NextWake().Sub(d.now()), 200*time.Microsecond))
	}
}

// gather is how long keys that are due wait for others, unless a caller waits for the answer. Under load
// many keys become due within it, and share one frame per leader instead of taking one each.
const gather = time.Millisecond

// gathering holds when keys were last gathered.
type gathering struct{ last quota.Time }

// left returns how long the next frame may still wait for more keys; 0 means send now.
func (g *gathering) left(now quota.Time, waited bool) time.Duration {
	if more := g.last.Add(gather).Sub(now); more > 0 && g.last > 0 && !waited {
		return more
	}
	g.last = now
	return 0
}

// work runs f and all other work in the inbox.
func (d *Decider) work(f func(quota.Time)) {
	f(d.now())
	for range inboxSize {
		select {
		case f = <-d.inbox:
			f(d.now())
		default:
			return
		}
	}
}

// OnMemberLoop runs f on the member loop. It blocks while the inbox is full.
func (d *Decider) OnMemberLoop(f func(now quota.Time)) {
	select {
	case d.inbox <- f:
	case <-d.ctx.Done():
	}
}

// Wake wakes the member loop.
func (d *Decider) Wake() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// packRoom pools memory for packed messages. A frame copies what it sends.
var packRoom = sync.Pool{New: func() any { return new([]byte) }}

// send delivers reports. It books those to ranges led here at once, and sends the others in as few
// frames per leader as they fit in. The keys of a lost report are reported again: counters are
// cumulative.
func (d *Decider) send(reports []quota.Report) {
	var byNode map[quota.NodeID][]*quota.Report
	for i := range reports {
		r := &reports[i]
		to, _ := d.agg.Leader(r.Range)
		d.stats.reports.Inc()
		d.stats.reportedKeys.Add(float64(len(r.Entries)))
		if to == d.cfg.Self {
			if g, ok := d.cfg.Replicas.BookOwn(r); ok {
				d.apply(d.now(), &g)
			}
			continue
		}
		d.slow.sent(to, r)
		if byNode == nil {
			byNode = map[quota.NodeID][]*quota.Report{}
		}
		byNode[to] = append(byNode[to], r)
	}
	for to, list := range byNode {
		peerproto.InFrames(list, func(r *quota.Report) int { return len(r.Entries) }, func(part []*quota.Report) {
			room := packRoom.Get().(*[]byte)
			*room = peerproto.PackReports((*room)[:0], part)
			d.node.Send(to, &peerv1.Frame{Body: &peerv1.Frame_PackedReports{PackedReports: *room}})
			packRoom.Put(room)
		})
	}
}

// OnGrants queues a frame of packed grants from another node. A full inbox drops it; the member then
// sends the unanswered reports again.
func (d *Decider) OnGrants(from quota.NodeID, packed []byte) {
	d.tryMemberLoop(func(now quota.Time) {
		grants, err := d.grants.Unpack(from, d.cfg.Self, packed)
		if err != nil {
			d.stats.droppedGrants.Inc()
			d.log.Debug("grants not read", "peer", from, "err", err)
			return
		}
		for i := range grants {
			d.apply(now, &grants[i])
		}
	})
}

// Deliver queues a grant of a ledger on this node. If the inbox is full it blocks, or without wait drops the grant.
func (d *Decider) Deliver(g *quota.Grant, wait bool) {
	apply := func(now quota.Time) { d.apply(now, g) }
	if wait {
		d.OnMemberLoop(apply)
	} else {
		d.tryMemberLoop(apply)
	}
}

// tryMemberLoop queues work that applies grants, or drops it if the inbox is full.
func (d *Decider) tryMemberLoop(f func(now quota.Time)) {
	select {
	case d.inbox <- f:
	default:
		d.stats.droppedGrants.Inc()
	}
}

func (d *Decider) apply(now quota.Time, g *quota.Grant) {
	d.slow.answered(g)
	d.agg.Apply(now, *g)
	d.waiters.Notify(g)
}
