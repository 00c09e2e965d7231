package raftgroup

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/internal/quota"
)

// batchSlack is the divisor of the heartbeat timeout that gives the slack for late raft timers: a
// batched heartbeat waits that much longer than it would in raft.
const batchSlack = 200

// heartbeatBatcher sends the heartbeats of all groups to a node together. The raft instance of
// each group sends a heartbeat at a random time between a tenth and a fifth of the heartbeat
// timeout after the last answer. With 64 groups that would be hundreds of writes a second, each
// of which wakes two processes. Here each heartbeat waits until the first one of the batch must
// go, a fifth of the timeout after its last answer. No group's heartbeats are further apart than
// raft itself allows. Because all are answered together, they fall into step.
//
// Urgent heartbeats leave at once and take the rest of the batch along: the first of a term, and one
// after a failure. Appends without entries, which carry the commit index when nothing is written,
// travel with the heartbeats.
//
// At most two messages wait per group and node, plus, until the next flush, those of an instance
// that has just ended.
type heartbeatBatcher struct {
	ask func(to quota.NodeID, lane peerv1.Lane, frames ...*peerv1.Frame) []transport.Asked

	mu      sync.Mutex
	batches map[quota.NodeID]*heartbeatBatch
}

// heartbeatBatch holds the heartbeats that wait to be sent to one node.
type heartbeatBatch struct {
	at    time.Time
	timer *time.Timer
	all   []*queuedHeartbeat
}

// queuedHeartbeat is one heartbeat, or one append without entries.
type queuedHeartbeat struct {
	trans *raftTransport
	frame *peerv1.Frame
	sent  chan struct{}    // closed when it is sent or dropped; asked is set by then
	prev  uint64           // last log entry when it was made; 0 in a heartbeat
	asked *transport.Asked // nil if it was dropped because its instance ended
}

// countWaiting adjusts the count of waiting appends, which hold up entries.
func (x *queuedHeartbeat) countWaiting(by int32) {
	if x.prev > 0 {
		x.trans.commitsWaiting.Add(by)
	}
}

// add queues a heartbeat to be sent no later than the given time.
func (b *heartbeatBatcher) add(id quota.NodeID, x *queuedHeartbeat, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if x.trans.ctx.Err() != nil {
		close(x.sent)
		return
	}
	d := b.batches[id]
	if d == nil {
		d = &heartbeatBatch{}
		b.batches[id] = d
	}
	d.all = append(d.all, x)
	x.countWaiting(1)
	wait := time.Until(at)
	switch {
	case wait <= 0 || x.prev > 0 && x.prev != x.trans.last.Load():
		b.flush(id, d)
	case d.timer == nil:
		d.at, d.timer = at, time.AfterFunc(wait, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.batches[id] == d { // not sent yet
				b.flush(id, d)
			}
		})
	case at.Before(d.at):
		d.at = at
		d.timer.Reset(wait)
	}
}

// flushAll sends all waiting heartbeats.
func (b *heartbeatBatcher) flushAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, d := range b.batches {
		b.flush(id, d)
	}
}

// flush sends the batch for one node. The caller holds mu.
func (b *heartbeatBatcher) flush(id quota.NodeID, d *heartbeatBatch) {
	delete(b.batches, id)
	if d.timer != nil {
		d.timer.Stop()
	}
	live, frames := d.all[:0], make([]*peerv1.Frame, 0, len(d.all))
	for _, x := range d.all {
		x.countWaiting(-1)
		if x.trans.ctx.Err() != nil { // a failed replica sends nothing
			close(x.sent)
			continue
		}
		live, frames = append(live, x), append(frames, x.frame)
	}
	asked := b.ask(id, peerv1.Lane_LANE_CONTROL, frames...)
	for i, x := range live {
		x.asked = &asked[i]
		close(x.sent)
	}
}

// latest returns the time by which a follower must hear from this leader again: a fifth of the
// heartbeat timeout after its last answer. For a follower without a recent answer that time has
// passed, so its heartbeat leaves at once.
func (t *raftTransport) latest(id raft.ServerID, term uint64) time.Time {
	every := t.timing.Heartbeat
	return t.readIndex.answered(quota.NodeID(id), term).Add(every/5 + every/batchSlack)
}

// triggerHeartbeats makes raft hand over its next heartbeats now; they then wait in the batcher.
// Otherwise each group's own timer would fire and wake the process. Raft sends heartbeats when it
// is asked to verify its leadership; the answer is ignored. Without this call, raft's timers send
// them.
func (t *raftTransport) triggerHeartbeats() {
	ask, now, last := t.leads.Load(), time.Now().UnixNano(), t.triggered.Load()
	if ask == nil || now-last < int64(t.timing.Heartbeat/10) || !t.triggered.CompareAndSwap(last, now) {
		return
	}
	(*ask)()
}

// stored records the index of the last log entry. If appends that carry the commit index are
// waiting, it sends them, and with them everything else in the batches.
func (t *raftTransport) stored(last uint64) {
	t.last.Store(last)
	if t.commitsWaiting.Load() > 0 {
		t.batcher.flushAll()
	}
}

// sendBatched sends an append without entries no later than the given time, together with
// whatever else waits for that node, and then waits up to limit for the answer.
func (t *raftTransport) sendBatched(id raft.ServerID, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse, at time.Time, limit time.Duration) error {
	m := &peerv1.Raft{Group: t.group, Message: &peerv1.Raft_AppendEntries{AppendEntries: appendOut(args)}}
	x := &queuedHeartbeat{trans: t, frame: &peerv1.Frame{Body: &peerv1.Frame_Raft{Raft: m}}, sent: make(chan struct{}), prev: args.PrevLogEntry}
	t.batcher.add(quota.NodeID(id), x, at)
	<-x.sent // soon: Close flushes
	if x.asked == nil {
		return t.ctx.Err()
	}
	ctx, cancel := context.WithTimeout(t.ctx, limit)
	defer cancel()
	f, err := x.asked.Wait(ctx)
	if err != nil {
		return err
	}
	return t.appended(id, args, resp, f.GetRaft())
}
