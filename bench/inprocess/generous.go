package inprocess

import (
	"context"
	"net"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/limitproto"
	"github.com/quorate/quorate/internal/quota"
	"google.golang.org/grpc"
)

// generous is a node that answers every report at once with more tokens than a client can spend.
// The client then only spends them: that is the row "tokens held". The rows of attached clients
// include how a node grants tokens, and when they are spent.
type generous struct {
	quoratev1.UnimplementedMemberServiceServer
	limits *quota.Limits
}

// serveGenerous returns the address of a generous node and a function that stops it.
func serveGenerous(ctx context.Context) (addr string, stop func() error, err error) {
	limits, err := quota.NewLimits(1, []quota.Limit{{
		LimitName: limitOf, Rate: quota.Rate{Tokens: 1, Per: time.Hour}, Burst: quota.MaxTokens,
	}})
	if err != nil {
		return "", nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	s := grpc.NewServer()
	quoratev1.RegisterMemberServiceServer(s, &generous{limits: limits})
	go func() { _ = s.Serve(l) }() // until Stop
	return l.Addr().String(), func() error { s.Stop(); return nil }, nil
}

// Attach answers one client.
func (g *generous) Attach(s grpc.BidiStreamingServer[quoratev1.AttachRequest, quoratev1.AttachResponse]) error {
	var term uint64
	for {
		m, err := s.Recv()
		if err != nil {
			return err
		}
		switch body := m.Body.(type) {
		case *quoratev1.AttachRequest_Hello:
			term = body.Hello.Attachment
			err = g.welcome(s)
		case *quoratev1.AttachRequest_Report:
			err = s.Send(&quoratev1.AttachResponse{Body: &quoratev1.AttachResponse_Grant{Grant: give(term, body.Report)}})
		}
		if err != nil {
			return err
		}
	}
}

func (g *generous) welcome(s grpc.BidiStreamingServer[quoratev1.AttachRequest, quoratev1.AttachResponse]) error {
	hello := &quoratev1.NodeHello{Node: "generous", Incarnation: 1, SyncNanos: int64(10 * time.Second), LeaseNanos: int64(day)}
	if err := s.Send(&quoratev1.AttachResponse{Body: &quoratev1.AttachResponse_Hello{Hello: hello}}); err != nil {
		return err
	}
	return s.Send(&quoratev1.AttachResponse{Body: &quoratev1.AttachResponse_Limits{
		Limits: &quoratev1.ClientLimits{Version: 1, Limits: limitproto.EncodeLimits(g.limits.All())},
	}})
}

// give answers a report with plenty of tokens, to be renewed only after an hour.
func give(term uint64, r *peerv1.Report) *peerv1.Grant {
	out := &peerv1.Grant{Range: r.Range, Term: term, At: int64(now())}
	for _, e := range r.Entries {
		entry := &peerv1.GrantEntry{
			Namespace: e.Namespace, Limit: e.Limit, Key: e.Key, Epoch: e.Epoch, Seq: r.Seq, Ack: r.Seq,
			Tokens: int64(quota.FromTokens(plenty >> 6)), Level: int64(quota.FromTokens(plenty)),
			LeaseNanos: int64(day), AgainNanos: int64(time.Hour),
		}
		out.Entries = append(out.Entries, entry)
	}
	return out
}
