package cluster

import (
	"context"
	"encoding/base64"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/cluster/peercall"
	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/tracing"
)

// handle dispatches a frame of a peer. It runs on the goroutine that reads the
// connection.
func (n *Node) handle(from quota.NodeID, f *peerv1.Frame, answer func(*peerv1.Frame)) {
	switch b := f.Body.(type) {
	case *peerv1.Frame_Raft:
		n.host.HandleFrame(from, f, answer)
	case *peerv1.Frame_PackedReports:
		n.ranges.OnReports(from, b.PackedReports)
	case *peerv1.Frame_PackedGrants:
		n.onPackedGrants(from, b.PackedGrants)
	case *peerv1.Frame_Beacon:
		n.onBeacon(from, b.Beacon)
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

// addCalls fills the table of the calls that this node answers.
func (n *Node) addCalls() {
	t := peercall.Table{}
	n.accounts.AddCalls(t)
	n.Store.AddCalls(t)
	n.Recorder.AddCalls(t)
	n.ranges.AddCalls(t)
	peercall.Handle(t, peercall.Limit, func(_ context.Context, _ quota.NodeID, c *peerv1.CallSettle) (*peerv1.CallSettleResult, error) {
		return n.onSettle(c), nil
	})
	n.members.AddCalls(t)
	n.backups.AddCalls(t)
	n.clients.AddCalls(t)
	n.calls = t
}

// callSlow calls another node where the answer waits for a disk: that does not count for the round
// trip, and ends with ctx alone.
func (n *Node) callSlow(ctx context.Context, to quota.NodeID, c *peerv1.Call) (_ *peerv1.Call, err error) {
	ctx, span := n.tracePart(ctx, to, c)
	defer func() { span.End(err) }()
	f, err := n.net.Call(ctx, to, peerv1.Lane_LANE_DATA, &peerv1.Frame{Body: &peerv1.Frame_Call{Call: c}})
	if err != nil {
		return nil, err
	}
	return f.GetCall(), nil
}

// call calls another node and notes how long that took.
func (n *Node) call(ctx context.Context, to quota.NodeID, c *peerv1.Call) (_ *peerv1.Call, err error) {
	ctx, span := n.tracePart(ctx, to, c)
	defer func() { span.End(err) }()
	ctx, cancel := context.WithTimeout(ctx, peercall.Limit)
	defer cancel()
	start := n.clock.Now()
	f, err := n.net.Call(ctx, to, peerv1.Lane_LANE_DATA, &peerv1.Frame{Body: &peerv1.Frame_Call{Call: c}})
	if err != nil {
		return nil, err
	}
	took := n.clock.Now().Sub(start)
	n.routes.peer(to, func(p *peer) { p.took(took) })
	return f.GetCall(), nil
}

// MaxTop bounds the keys of one answer.
const MaxTop = replica.MaxTop

// TopRates asks all leaders for the keys with the highest demand and merges
// what they say. Nodes that do not answer in a second are left out, and the
// answer says how many ranges it covers.
func (n *Node) TopRates(ctx context.Context, req *quoratev1.TopRatesRequest) (*quoratev1.TopRatesResponse, error) {
	ask := &peerv1.CallRates{
		Top: min(max(req.Top, 1), MaxTop), Namespace: req.Namespace, Limit: req.Limit, Order: int32(req.Order), KeyPrefix: req.KeyPrefix, Label: req.Label,
	}
	if req.PageToken != "" {
		after, err := base64.RawURLEncoding.DecodeString(req.PageToken)
		if err != nil || proto.Unmarshal(after, &quoratev1.KeyRate{}) != nil {
			return nil, status.Error(codes.InvalidArgument, "page_token: is not what an answer's next_page_token was")
		}
		ask.After = after
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	answers := []*peerv1.CallRatesResult{n.ranges.Rates(ask)}
	var mu sync.Mutex
	var wg sync.WaitGroup
	told := map[quota.NodeID]bool{} // who was asked, and answered
	for _, id := range n.members.View().IDs {
		if id != n.cfg.Self {
			told[id] = false
		}
	}
	for _, id := range n.routes.upNodes() {
		wg.Go(func() {
			c, err := n.call(ctx, id, &peerv1.Call{Body: &peerv1.Call_Rates{Rates: ask}})
			if err != nil {
				return // its ranges are missing from the count
			}
			mu.Lock()
			defer mu.Unlock()
			told[id] = true
			answers = append(answers, c.GetRatesResult())
		})
	}
	wg.Wait()
	out := n.mergeRates(answers, ask)
	out.Limits = mergeErrors(answers)
	out.MembersCovered, out.MembersTotal, out.MissingMembers = int32(len(answers)), int32(len(told)+1), missing(told)
	return out, nil
}

// missing are the nodes that did not answer, sorted.
func missing(told map[quota.NodeID]bool) []string {
	var out []string
	for id, ok := range told {
		if !ok {
			out = append(out, string(id))
		}
	}
	slices.Sort(out)
	return out
}

func (n *Node) mergeRates(answers []*peerv1.CallRatesResult, ask *peerv1.CallRates) *quoratev1.TopRatesResponse {
	q := replica.RateQuery(ask)
	out := &quoratev1.TopRatesResponse{RangesTotal: int32(n.cfg.Ranges), AsOf: timestamppb.Now()}
	covered := map[uint32]bool{}
	best := map[quota.Key]*quoratev1.KeyRate{}
	for _, a := range answers {
		for _, r := range a.GetRanges() {
			covered[r] = true
		}
		for _, data := range a.GetKeys() {
			k := &quoratev1.KeyRate{}
			if proto.Unmarshal(data, k) != nil {
				continue
			}
			id := key(k.Namespace, k.Limit, k.Key)
			if have := best[id]; have == nil || have.Term < k.Term { // a deposed leader may answer too
				best[id] = k
			}
		}
	}
	for _, k := range best {
		if r := replica.Ranked(k); !quota.HasLabel(k.Key, q.Label) || q.After != nil && q.Order.Compare(q.After, &r) >= 0 {
			continue // from a node of a version that does not look at these
		}
		out.Keys = append(out.Keys, k)
	}
	slices.SortFunc(out.Keys, func(a, b *quoratev1.KeyRate) int {
		x, y := replica.Ranked(a), replica.Ranked(b)
		return q.Order.Compare(&x, &y)
	})
	out.Keys = out.Keys[:min(q.Top, len(out.Keys))]
	out.RangesCovered = int32(len(covered))
	return out
}
