package grpclimit_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/grpclimit"
)

// instant answers without any work.
type instant struct{ r client.Result }

func (i *instant) Allow(context.Context, string, string, string, int64) (client.Result, error) {
	return i.r, nil
}

func (i *instant) AllowHTTP(context.Context, client.HTTPCheck) (client.Result, error) {
	return i.r, nil
}
func (i *instant) Close() error { return nil }

// BenchmarkCall measures a unary call over loopback with and without the interceptor.
func BenchmarkCall(b *testing.B) {
	for _, bc := range []struct {
		name   string
		server []grpc.ServerOption
	}{
		{"bare", nil},
		{"limit", grpclimit.Server(&instant{passed(19)}, calls)},
		{"limit-no-metadata", grpclimit.Server(&instant{passed(19)}, calls, grpclimit.NoMetadata())},
	} {
		b.Run(bc.name, func(b *testing.B) {
			c, _ := serve(b, bc.server, nil)
			req := payload(10)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.UnaryCall(b.Context(), req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkInterceptor measures the interceptor alone.
func BenchmarkInterceptor(b *testing.B) {
	f := grpclimit.UnaryServerInterceptor(&instant{passed(19)}, calls, grpclimit.NoMetadata())
	info := &grpc.UnaryServerInfo{FullMethod: unaryCall}
	next := func(context.Context, any) (any, error) { return nil, nil }
	req := payload(10)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f(b.Context(), req, info, next); err != nil {
			b.Fatal(err)
		}
	}
}
