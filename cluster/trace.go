package cluster

import (
	"context"
	"fmt"
	"strings"

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
