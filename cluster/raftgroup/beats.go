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

// beatSlack is by how much the timers of raft may be late, as a part of the
// heartbeat timeout: a heartbeat that waits for others waits so much longer than
// raft would.
const beatSlack = 200

// beats has the heartbeats of all groups to a node leave together. Each group's
// raft sends one every tenth to fifth of the heartbeat timeout after the last was
// answered, as chance has it: with 64 groups that would be hundreds of writes a
// second, and as many times that two processes are woken. Here each waits until the
// first of them must go, which is a fifth after its last answer: no group's
// heartbeats are further apart than raft itself may have them. As all are answered
// together, they fall into step.
//
// What must not wait goes at once, and takes the others along: the first of a term,
// one after a failure, and all that a confirmation needs. Appends without entries,
// which tell the commit index when nothing is written, go with heartbeats.
//
// At most two wait for each group and node, and for as long those of an instance that has
// just ended.
type beats struct {
	ask func(to quota.NodeID, lane peerv1.Lane, frames ...*peerv1.Frame) []transport.Asked

	mu sync.Mutex
	to map[quota.NodeID]*departure
}

// departure is the heartbeats that wait to leave for one node.
type departure struct {
	at    time.Time
	timer *time.Timer
	all   []*beat
}

// beat is one heartbeat.
type beat struct {
	trans  *raftTransport
	frame  *peerv1.Frame
	gone   chan struct{}    // closed when it has left; what follows is set then
	prev   uint64           // last entry of the log when it was made; 0 in a heartbeat
	number uint64           // round of confirmation in which it left
	asked  *transport.Asked // nil if it never did: its instance has ended
}

// count counts what waits and holds up entries.
func (x *beat) count(by int32) {
	if x.prev > 0 {
		x.trans.telling.Add(by)
	}
}

func newBeats(net *transport.Net) *beats {
	return &beats{ask: net.Ask, to: map[quota.NodeID]*departure{}}
}

// join has a heartbeat leave, at the time given or before.
func (b *beats) join(id quota.NodeID, x *beat, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if x.trans.ctx.Err() != nil {
		close(x.gone)
		return
	}
	d := b.to[id]
	if d == nil {
		d = &departure{}
		b.to[id] = d
	}
	d.all = append(d.all, x)
	x.count(1)
	wait := time.Until(at)
	switch {
	case wait <= 0 || x.trans.confirms.urgent() || x.prev > 0 && x.prev != x.trans.last.Load():
		b.leave(id, d)
	case d.timer == nil:
		d.at, d.timer = at, time.AfterFunc(wait, func() { b.depart(id, d) })
	case at.Before(d.at):
		d.at = at
		d.timer.Reset(wait)
	}
}

// depart is called when the first of a departure must go.
func (b *beats) depart(id quota.NodeID, d *departure) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.to[id] == d { // has not left
		b.leave(id, d)
	}
}

// hurry has all go that wait now.
func (b *beats) hurry() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, d := range b.to {
		b.leave(id, d)
	}
}

// leave sends what waits for a node, with mu held.
func (b *beats) leave(id quota.NodeID, d *departure) {
	delete(b.to, id)
	if d.timer != nil {
		d.timer.Stop()
	}
	live, frames := d.all[:0], make([]*peerv1.Frame, 0, len(d.all))
	for _, x := range d.all {
		x.count(-1)
		if x.trans.ctx.Err() != nil { // nothing leaves a replica that was condemned
			close(x.gone)
			continue
		}
		x.number = x.trans.confirms.round() // before it is sent
		live, frames = append(live, x), append(frames, x.frame)
	}
	asked := b.ask(id, peerv1.Lane_LANE_CONTROL, frames...)
	for i, x := range live {
		x.asked = &asked[i]
		close(x.gone)
	}
}

// heartbeat sends a heartbeat with those of other groups, and waits for the answer.
// A lost one must not hold back the next for long.
func (t *raftTransport) heartbeat(id raft.ServerID, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	err := t.together(id, args, resp, t.latest(id, args.Term), t.timing.Heartbeat)
	if err == nil && resp.Success {
		t.nudge()
	}
	return err
}

// latest is when a follower has to hear of this leader again: a fifth of the heartbeat
// timeout after its last answer. Whoever has not answered since waits for nothing.
func (t *raftTransport) latest(id raft.ServerID, term uint64) time.Time {
	every := t.timing.Heartbeat
	return t.confirms.answered(quota.NodeID(id), term).Add(every/5 + every/beatSlack)
}

// nudge has raft hand over its next heartbeats at once, which wait here then, instead
// of when a timer of each of them fires: that would wake the process for every one. Raft
// does so when it is asked whether it leads; the answer is of no interest. Where nobody
// asks, its timers do it.
func (t *raftTransport) nudge() {
	ask, now, last := t.leads.Load(), time.Now().UnixNano(), t.nudged.Load()
	if ask == nil || t.confirms.urgent() || now-last < int64(t.timing.Heartbeat/10) || !t.nudged.CompareAndSwap(last, now) {
		return
	}
	(*ask)()
}

// tell sends an append without entries, which carries the commit index, likewise.
// Raft sends this follower no entries before that is answered, so it leaves as soon
// as there are any.
func (t *raftTransport) tell(id raft.ServerID, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	at, late := time.Now().Add(t.idle/5), t.latest(id, args.Term)
	if late.Before(at) {
		at = late
	}
	return t.together(id, args, resp, at, t.timing.rpcTimeout())
}

// stored says that the log ends there now: what tells the commit index to followers
// has to go, and all else that waits goes with it.
func (t *raftTransport) stored(last uint64) {
	t.last.Store(last)
	if t.telling.Load() > 0 {
		t.beats.hurry()
	}
}

// together sends an append without entries at the time given, or before, with what
// else waits to go there, and waits for the answer until the limit.
func (t *raftTransport) together(id raft.ServerID, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse, at time.Time, limit time.Duration) error {
	m := &peerv1.Raft{Group: t.group, Message: &peerv1.Raft_AppendEntries{AppendEntries: appendOut(args)}}
	x := &beat{trans: t, frame: &peerv1.Frame{Body: &peerv1.Frame_Raft{Raft: m}}, gone: make(chan struct{}), prev: args.PrevLogEntry}
	t.beats.join(quota.NodeID(id), x, at)
	<-x.gone // soon: see Close
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
