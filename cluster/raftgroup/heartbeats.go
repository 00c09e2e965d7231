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

// batchSlack is by how much the timers of raft may be late, as a part of the
// heartbeat timeout: a heartbeat that waits for others waits so much longer than
// raft would.
const batchSlack = 200

// heartbeatBatcher sends the heartbeats of all groups to a node together. Each group's
// raft sends one every tenth to fifth of the heartbeat timeout after the last was
// answered, as chance has it: with 64 groups that would be hundreds of writes a
// second, and as many times that two processes are woken. Here each waits until the
// first of them must go, which is a fifth after its last answer: no group's
// heartbeats are further apart than raft itself may have them. As all are answered
// together, they fall into step.
//
// What must not wait goes at once, and takes the others along: the first of a term,
// one after a failure, and all that a round of readIndex needs. Appends without entries,
// which carry the commit index when nothing is written, go with heartbeats.
//
// At most two wait for each group and node, and for as long those of an instance that has
// just ended.
type heartbeatBatcher struct {
	ask func(to quota.NodeID, lane peerv1.Lane, frames ...*peerv1.Frame) []transport.Asked

	mu      sync.Mutex
	batches map[quota.NodeID]*heartbeatBatch
}

// heartbeatBatch is the heartbeats that wait to be sent to one node.
type heartbeatBatch struct {
	at    time.Time
	timer *time.Timer
	all   []*queuedHeartbeat
}

// queuedHeartbeat is one heartbeat.
type queuedHeartbeat struct {
	trans  *raftTransport
	frame  *peerv1.Frame
	sent   chan struct{}    // closed when it is sent; what follows is set then
	prev   uint64           // last entry of the log when it was made; 0 in a heartbeat
	number uint64           // round of readIndex in which it was sent
	asked  *transport.Asked // nil if it never did: its instance has ended
}

// countWaiting counts what waits and holds up entries.
func (x *queuedHeartbeat) countWaiting(by int32) {
	if x.prev > 0 {
		x.trans.commitsWaiting.Add(by)
	}
}

func newHeartbeatBatcher(net *transport.Net) *heartbeatBatcher {
	return &heartbeatBatcher{ask: net.Ask, batches: map[quota.NodeID]*heartbeatBatch{}}
}

// add has a heartbeat sent, at the time given or before.
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
	case wait <= 0 || x.trans.readIndex.urgent() || x.prev > 0 && x.prev != x.trans.last.Load():
		b.flush(id, d)
	case d.timer == nil:
		d.at, d.timer = at, time.AfterFunc(wait, func() { b.flushDue(id, d) })
	case at.Before(d.at):
		d.at = at
		d.timer.Reset(wait)
	}
}

// flushDue is called when the first of a batch is due.
func (b *heartbeatBatcher) flushDue(id quota.NodeID, d *heartbeatBatch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.batches[id] == d { // has not left
		b.flush(id, d)
	}
}

// flushAll sends all that wait.
func (b *heartbeatBatcher) flushAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, d := range b.batches {
		b.flush(id, d)
	}
}

// flush sends what waits for a node, with mu held.
func (b *heartbeatBatcher) flush(id quota.NodeID, d *heartbeatBatch) {
	delete(b.batches, id)
	if d.timer != nil {
		d.timer.Stop()
	}
	live, frames := d.all[:0], make([]*peerv1.Frame, 0, len(d.all))
	for _, x := range d.all {
		x.countWaiting(-1)
		if x.trans.ctx.Err() != nil { // nothing leaves a replica that has failed
			close(x.sent)
			continue
		}
		x.number = x.trans.readIndex.round() // before it is sent
		live, frames = append(live, x), append(frames, x.frame)
	}
	asked := b.ask(id, peerv1.Lane_LANE_CONTROL, frames...)
	for i, x := range live {
		x.asked = &asked[i]
		close(x.sent)
	}
}

// heartbeat sends a heartbeat with those of other groups, and waits for the answer.
// A lost one must not hold back the next for long.
func (t *raftTransport) heartbeat(id raft.ServerID, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	err := t.sendBatched(id, args, resp, t.latest(id, args.Term), t.timing.Heartbeat)
	if err == nil && resp.Success {
		t.triggerHeartbeats()
	}
	return err
}

// latest is when a follower has to hear of this leader again: a fifth of the heartbeat
// timeout after its last answer. Whoever has not answered since waits for nothing.
func (t *raftTransport) latest(id raft.ServerID, term uint64) time.Time {
	every := t.timing.Heartbeat
	return t.readIndex.answered(quota.NodeID(id), term).Add(every/5 + every/batchSlack)
}

// triggerHeartbeats has raft hand over its next heartbeats at once, which wait here then, instead
// of when a timer of each of them fires: that would wake the process for every one. Raft
// does so when it is asked whether it leads; the answer is of no interest. Where nobody
// asks, its timers do it.
func (t *raftTransport) triggerHeartbeats() {
	ask, now, last := t.leads.Load(), time.Now().UnixNano(), t.triggered.Load()
	if ask == nil || t.readIndex.urgent() || now-last < int64(t.timing.Heartbeat/10) || !t.triggered.CompareAndSwap(last, now) {
		return
	}
	(*ask)()
}

// sendCommitIndex sends an append without entries, which carries the commit index, likewise.
// Raft sends this follower no entries before that is answered, so it leaves as soon
// as there are any.
func (t *raftTransport) sendCommitIndex(id raft.ServerID, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	at, late := time.Now().Add(t.idle/5), t.latest(id, args.Term)
	if late.Before(at) {
		at = late
	}
	return t.sendBatched(id, args, resp, at, t.timing.rpcTimeout())
}

// stored says that the log ends there now: what carries the commit index to followers
// has to go, and all else that waits goes with it.
func (t *raftTransport) stored(last uint64) {
	t.last.Store(last)
	if t.commitsWaiting.Load() > 0 {
		t.batcher.flushAll()
	}
}

// sendBatched sends an append without entries at the time given, or before, with what
// else waits to go there, and waits for the answer until the limit.
func (t *raftTransport) sendBatched(id raft.ServerID, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse, at time.Time, limit time.Duration) error {
	m := &peerv1.Raft{Group: t.group, Message: &peerv1.Raft_AppendEntries{AppendEntries: appendOut(args)}}
	x := &queuedHeartbeat{trans: t, frame: &peerv1.Frame{Body: &peerv1.Frame_Raft{Raft: m}}, sent: make(chan struct{}), prev: args.PrevLogEntry}
	t.batcher.add(quota.NodeID(id), x, at)
	<-x.sent // soon: see Close
	if x.asked == nil {
		return t.ctx.Err()
	}
	ctx, cancel := context.WithTimeout(t.ctx, limit)
	defer cancel()
	f, err := x.asked.Wait(ctx)
	if err != nil {
		return err
	}
	return t.appended(id, args, resp, f.GetRaft(), x.number)
}
