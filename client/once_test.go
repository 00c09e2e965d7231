package client

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// booker counts what it books. If lose is set, it ends all connections instead of answering.
type booker struct {
	quoratev1.UnimplementedQuotaServiceServer
	booked *atomic.Int64 // over all nodes
	lose   func()
}

func (n *booker) book(ctx context.Context, tokens int64) error {
	n.booked.Add(tokens)
	if n.lose == nil {
		return nil
	}
	n.lose()
	<-ctx.Done()
	return ctx.Err()
}

func (n *booker) Refund(ctx context.Context, req *quoratev1.RefundRequest) (*quoratev1.RefundResponse, error) {
	return &quoratev1.RefundResponse{}, n.book(ctx, req.GetCost())
}

func (n *booker) Report(ctx context.Context, req *quoratev1.ReportRequest) (*quoratev1.ReportResponse, error) {
	return &quoratev1.ReportResponse{Booked: req.Used}, n.book(ctx, req.Used)
}

// TestCountsOnce checks that the client does not repeat, at another node, a refund or report that a
// node has booked without answering: a repeated refund would return tokens twice, those of other
// callers too. A call that reached no node is repeated.
func TestCountsOnce(t *testing.T) {
	for name, call := range map[string]func(*Client) error{
		"refund": func(c *Client) error { return c.Refund(t.Context(), "n", "l", "k", 5) },
		"report": func(c *Client) error { _, err := c.Report(t.Context(), "n", "l", "k", 5); return err },
	} {
		t.Run(name, func(t *testing.T) {
			var booked atomic.Int64
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			srv := grpc.NewServer()
			quoratev1.RegisterQuotaServiceServer(srv, &booker{booked: &booked, lose: func() { go srv.Stop() }})
			go srv.Serve(l) // returns after Stop
			t.Cleanup(srv.Stop)
			next, _ := serve(t, &booker{booked: &booked})
			c := newClient(t, []string{l.Addr().String(), next})
			if err := call(c); !errors.Is(err, ErrUnavailable) || booked.Load() != 5 {
				t.Errorf("the answer was lost: %v, and %d tokens are booked; want ErrUnavailable, 5", err, booked.Load())
			}
			if err := call(c); err != nil || booked.Load() != 10 { // the first node is gone, which the client learns before it sends anything
				t.Errorf("the node was gone: %v, and %d tokens are booked; want none, 10", err, booked.Load())
			}
		})
	}
}
