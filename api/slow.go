package api

import (
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// unlessStuck runs serve, and returns before it if one send takes longer than most. serve must make
// each send through around. Returning ends a gRPC stream, and with it the blocked send.
func unlessStuck(most time.Duration, serve func(around func(send func() error) error) error) error {
	stuck, done := make(chan struct{}), make(chan error, 1)
	giveUp := sync.OnceFunc(func() { close(stuck) })
	timer := time.AfterFunc(most, giveUp)
	timer.Stop()
	go func() {
		done <- serve(func(send func() error) error {
			timer.Reset(most)
			defer timer.Stop()
			return send()
		})
	}()
	select {
	case err := <-done:
		return err
	case <-stuck:
		return status.Errorf(codes.ResourceExhausted, "the caller has read nothing for %v; watch again when it can read", most)
	}
}
