package grpcapi

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apitest"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/quota"
)

// yes is a node that admits everything at once.
type yes struct {
	*apitest.Node
	limit *quota.Limit
}

func (n *yes) Check(quota.Key, int64) quota.Decision {
	return quota.Decision{Allowed: true, Limit: n.limit, Remaining: 12345, Why: quota.WhyHeld, Tier: 1}
}

// CheckHeld implements HeldChecker.
func (n *yes) CheckHeld(_ quota.LimitName, checks []quota.Spend, out []quota.Decision) {
	for i := range checks {
		out[i] = n.Check(quota.Key{}, 1)
	}
}

func benchServer(t testing.TB) *quotaServer {
	t.Helper()
	n := &yes{Node: apitest.New(t).With(t, "web/per_client 1000/s 2000")}
	n.limit = &n.Active.All()[0]
	s := api.New(n, api.Options{})
	return &quotaServer{QuotaService: s.Quota, server: &grpcServer{Service: s}}
}

func benchCheck() *quoratev1.AllowRequest {
	return &quoratev1.AllowRequest{Namespace: "web", Limit: "per_client", Key: "customer-000000000012345"}
}

func benchBatch() *quoratev1.AllowBatchRequest {
	out := &quoratev1.AllowBatchRequest{}
	for i := range apiproto.MaxBatch {
		out.Checks = append(out.Checks, &quoratev1.AllowRequest{Namespace: "web", Limit: "per_client", Key: fmt.Sprintf("customer-%015d", i)})
	}
	return out
}

// BenchmarkCodec measures what a node adds to gRPC, from bytes to bytes, without the decision: with
// the generated code, and with the codec. ns/op is per call; batches have 1000 checks.
func BenchmarkCodec(b *testing.B) {
	s, one, all := benchServer(b), benchCheck(), benchBatch()
	c := newCodec()
	run := func(name string, req proto.Message, serve func(dec func(any) error) (any, error)) {
		data, err := proto.Marshal(req)
		if err != nil {
			b.Fatal(err)
		}
		in := mem.BufferSlice{mem.SliceBuffer(data)}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				res, err := serve(func(m any) error { return c.Unmarshal(in, m) })
				if err != nil {
					b.Fatal(err)
				}
				out, err := c.Marshal(res)
				if err != nil {
					b.Fatal(err)
				}
				out.Free()
			}
		})
	}
	ctx := context.Background()
	run("one/generated", one, func(dec func(any) error) (any, error) {
		req := new(quoratev1.AllowRequest)
		if err := dec(req); err != nil {
			return nil, err
		}
		return generatedAllow(s.QuotaService, req)
	})
	run("one/codec", one, func(dec func(any) error) (any, error) { return s.serveAllow(ctx, dec) })
	run("batch/generated", all, func(dec func(any) error) (any, error) {
		req, res := new(quoratev1.AllowBatchRequest), new(quoratev1.AllowBatchResponse)
		if err := dec(req); err != nil {
			return nil, err
		}
		for _, c := range req.Checks {
			r, err := generatedAllow(s.QuotaService, c)
			if err != nil {
				return nil, err
			}
			res.Results = append(res.Results, &quoratev1.AllowResult{Response: r})
		}
		return res, nil
	})
	run("batch/codec", all, func(dec func(any) error) (any, error) { return s.serveBatch(ctx, dec) })
}

// generatedAllow is Allow with the generated messages.
func generatedAllow(s *api.QuotaService, req *quoratev1.AllowRequest) (*quoratev1.AllowResponse, error) {
	var c api.Check
	if err := c.From(req); err != nil {
		return nil, err
	}
	d, r, err := s.Decide(&c)
	if err != nil {
		return nil, err
	}
	return r.Response(&d), nil
}
