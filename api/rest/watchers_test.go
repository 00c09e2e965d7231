package rest

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// TestWatchersAreShared checks that one identity cannot take all watchers of a node.
func TestWatchersAreShared(t *testing.T) {
	s := newSecured(t, everyRole())
	conn := s.dial(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for what, watch := range map[string]func(ctx context.Context) error{
		"rates": func(ctx context.Context) error {
			w, err := quoratev1.NewRateServiceClient(conn).WatchRates(ctx, &quoratev1.WatchRatesRequest{Top: 1})
			if err == nil {
				_, err = w.Recv()
			}
			return err
		},
		"events": func(ctx context.Context) error {
			w, err := quoratev1.NewEventServiceClient(conn).Watch(ctx, &quoratev1.WatchRequest{Buffer: 65536})
			if err == nil {
				_, err = w.Header()
			}
			if md, _ := w.Header(); err == nil && md == nil { // it has ended
				_, err = w.Recv()
			}
			return err
		},
	} {
		most := map[string]int{"rates": 16, "events": 2}[what]
		for i := range most {
			if err := watch(s.as(ctx, "admin")); err != nil {
				t.Fatalf("%s: watcher %d: %v", what, i, err)
			}
		}
		if err := watch(s.as(ctx, "admin")); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%s: one more of the same identity: %v", what, err)
		}
		if err := watch(s.as(ctx, "operator")); err != nil {
			t.Errorf("%s: another identity: %v", what, err)
		}
	}
}
