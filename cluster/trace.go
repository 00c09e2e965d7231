package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/tracing"
)

// tracePart is the span of a call to a peer, if it is part of a trace; the peer is told.
func (n *Node) tracePart(ctx context.Context, to quota.NodeID, c *peerv1.Call) (context.Context, tracing.Span) {
	ctx, span := n.cfg.Tracer.Part(ctx, "quorate.peer.call")
	if parent := n.cfg.Tracer.Parent(ctx); parent != "" {
		c.TraceParent = parent
		span.Text("quorate.to", string(to))
		span.Text("quorate.call", strings.TrimPrefix(fmt.Sprintf("%T", c.Body), "*peerv1.Call_"))
	}
	return ctx, span
}

// A report whose answer takes longer than so many sync intervals is slow: it gets a span.
const slowReport = 5

// slowReports watches how long reports wait for their answers, while there is somebody to tell
// it. It is the member loop's alone.
type slowReports struct {
	waiting map[quota.RangeID]awaited // at most one of each range, the oldest
}

type awaited struct {
	seq  quota.Seq
	to   quota.NodeID
	keys int
	at   time.Time
}

func (s *slowReports) sent(n *Node, to quota.NodeID, r *quota.Report) {
	if n.cfg.Tracer == nil {
		return
	}
	if s.waiting == nil {
		s.waiting = map[quota.RangeID]awaited{}
	}
	if _, there := s.waiting[r.Range]; !there && len(r.Entries) > 0 {
		s.waiting[r.Range] = awaited{r.Seq, to, len(r.Entries), time.Now()}
	}
}

func (s *slowReports) answered(n *Node, g *quota.Grant) {
	w, there := s.waiting[g.Range]
	if !there || !answers(g, w.seq) {
		return
	}
	delete(s.waiting, g.Range)
	if time.Since(w.at) < slowReport*n.sync() {
		return
	}
	span := n.cfg.Tracer.Past("quorate.report.slow", w.at)
	span.Int("quorate.range", int64(g.Range))
	span.Int("quorate.keys", int64(w.keys))
	span.Text("quorate.to", string(w.to))
	span.Text("quorate.answered_by", string(g.From))
	span.End(nil)
}

// answers reports whether a grant answers a report, or a later one: by then the first was lost.
func answers(g *quota.Grant, seq quota.Seq) bool {
	for i := range g.Entries {
		if g.Entries[i].Ack >= seq {
			return true
		}
	}
	return false
}
