package cluster

import (
	"context"
	"fmt"
	"strings"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/peercall"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/tracing"
)

// handle dispatches a frame from a peer. It runs on the goroutine that reads the
// connection.
func (n *Node) handle(from quota.NodeID, f *peerv1.Frame, answer func(*peerv1.Frame)) {
	switch b := f.Body.(type) {
	case *peerv1.Frame_Raft:
		n.host.HandleFrame(from, f, answer)
	case *peerv1.Frame_PackedReports:
		n.ranges.OnReports(from, b.PackedReports)
	case *peerv1.Frame_PackedGrants:
		n.OnGrants(from, b.PackedGrants)
	case *peerv1.Frame_Beacon:
		n.onBeacon(from, b.Beacon)
	case *peerv1.Frame_Clock:
		answer(n.clockFrame())
	case *peerv1.Frame_Call:
		go n.onCall(from, b.Call, answer)
	default:
		answer(&peerv1.Frame{Error: "this version does not know the message"})
	}
}

// onCall answers a peer's call.
func (n *Node) onCall(from quota.NodeID, c *peerv1.Call, answer func(*peerv1.Frame)) {
	ctx := context.Background()
	if c.GetTraceParent() != "" {
		var span tracing.Span
		ctx, span = n.cfg.Tracer.Serve(ctx, "quorate.peer.answer", c.GetTraceParent())
		span.Text("quorate.from", string(from))
		defer func() { span.End(nil) }()
	}
	out, err := n.calls.Answer(ctx, from, c)
	if err != nil {
		answer(&peerv1.Frame{Error: err.Error()})
		return
	}
	answer(&peerv1.Frame{Body: &peerv1.Frame_Call{Call: out}})
}

// addCalls builds the table of calls that this node answers.
func (n *Node) addCalls() {
	t := peercall.Table{}
	n.accounts.AddCalls(t)
	n.Store.AddCalls(t)
	n.Recorder.AddCalls(t)
	n.ranges.AddCalls(t)
	n.Decider.AddCalls(t)
	n.members.AddCalls(t)
	n.backups.AddCalls(t)
	n.clients.AddCalls(t)
	n.gather.AddCalls(t)
	n.calls = t
}

// part has the methods that the packages of a node ask of it alike. The adapters for their Node interfaces
// embed it, or slow.
type part struct{ *Node }

func (n part) Now() quota.Time                     { return n.clock.Now() }
func (n part) MetaLeader() quota.NodeID            { return n.routes.metaLeader() }
func (n part) Leader(r quota.RangeID) quota.NodeID { return n.routes.leader(r) }
func (n part) Up(id quota.NodeID) bool             { return n.routes.up(id) }
func (n part) Committed() *quota.Limits            { return n.meta.Current() }
func (n part) Members() []quota.NodeID             { return n.members.View().IDs }

// Call calls another node, for at most peercall.Limit, and updates its round trip.
func (n part) Call(ctx context.Context, to quota.NodeID, c *peerv1.Call) (*peerv1.Call, error) {
	ctx, cancel := context.WithTimeout(ctx, peercall.Limit)
	defer cancel()
	start := n.clock.Now()
	out, err := slow{n}.Call(ctx, to, c)
	if err == nil {
		took := n.clock.Now().Sub(start)
		n.routes.peer(to, func(p *peer) { p.observeRTT(took) })
	}
	return out, err
}

// Send queues a frame of reports or grants, and counts it if it cannot be queued.
func (n part) Send(to quota.NodeID, f *peerv1.Frame) {
	if err := n.net.Send(to, peerv1.Lane_LANE_DATA, f); err != nil {
		n.stats.unsent.Inc()
	}
}

// Propose writes an entry to the log of a range.
func (n part) Propose(ctx context.Context, r quota.RangeID, entry []byte) error {
	g := n.host.Group(raftgroup.OfRange(r))
	if g == nil { // the node is closing
		return raftgroup.ErrClosed
	}
	_, err := g.Apply(ctx, entry)
	return err
}

// slow is a part whose calls wait for a disk.
type slow struct{ part }

// Call calls another node. The duration does not count towards the round trip, and only ctx limits it. If
// the call is part of a trace, it carries the trace parent.
func (n slow) Call(ctx context.Context, to quota.NodeID, c *peerv1.Call) (_ *peerv1.Call, err error) {
	ctx, span := n.cfg.Tracer.Part(ctx, "quorate.peer.call")
	defer func() { span.End(err) }()
	if parent := n.cfg.Tracer.Parent(ctx); parent != "" {
		c.TraceParent = parent
		span.Text("quorate.to", string(to))
		span.Text("quorate.call", strings.TrimPrefix(fmt.Sprintf("%T", c.Body), "*peerv1.Call_"))
	}
	f, err := n.net.Call(ctx, to, peerv1.Lane_LANE_DATA, &peerv1.Frame{Body: &peerv1.Frame_Call{Call: c}})
	if err != nil {
		return nil, err
	}
	return f.GetCall(), nil
}
