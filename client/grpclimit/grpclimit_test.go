package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/extract"
	"github.com/quorate/quorate/client/grpclimit"
)

const (
	unaryCall  = "/grpc.testing.TestService/UnaryCall"
	emptyCall  = "/grpc.testing.TestService/EmptyCall"
	fullDuplex = "/grpc.testing.TestService/FullDuplexCall"
	streamIn   = "/grpc.testing.TestService/StreamingInputCall"
)

// TestUnary checks how each result reaches the caller.
func TestUnary(t *testing.T) {
	for _, tc := range []struct {
		name    string
		l       *fake
		opts    []grpclimit.ServerOption
		code    codes.Code
		message string
		header  string // ratelimit
		trailer map[string]string
	}{
		{"passes", always(passed(19)), nil, codes.OK, "", `"calls";r=19;t=1`, nil},
		{"silent", always(passed(19)), []grpclimit.ServerOption{grpclimit.NoMetadata()}, codes.OK, "", "", nil},
		{"refused", always(refused(1500 * time.Millisecond)), nil, codes.ResourceExhausted, "the limit calls is used up; try again in 2 seconds", "", map[string]string{"ratelimit": `"calls";r=0;t=2`, "ratelimit-policy": `"calls";q=20;w=2`, "retry-after": "2", "grpc-retry-pushback-ms": "1500"}},
		{"refused, silent", always(refused(1)), []grpclimit.ServerOption{grpclimit.NoMetadata()}, codes.ResourceExhausted, "the limit calls is used up; try again in 1 second", "", map[string]string{"ratelimit": "", "retry-after": "1", "grpc-retry-pushback-ms": "1"}},
		{"refused for ever", always(refused(client.Never)), nil, codes.ResourceExhausted, "the limit calls never admits this request, however long the caller waits", "", map[string]string{"ratelimit": `"calls";r=0`, "retry-after": "", "grpc-retry-pushback-ms": "-1"}},
		{"fails open", broken(client.ErrUnavailable), nil, codes.OK, "", "", nil},
		{"fails closed", broken(client.ErrUnavailable), []grpclimit.ServerOption{grpclimit.FailClosed()}, codes.Unavailable, "the rate limiter has no answer", "", nil},
		{"no key", &fake{}, []grpclimit.ServerOption{grpclimit.Key(extract.Metadata("x-key")), grpclimit.MissingKey(extract.Refuse)}, codes.InvalidArgument, "header X-Key is missing", "", nil},
		{"slow limiter, fails open", broken(context.DeadlineExceeded), nil, codes.OK, "", "", nil},
		{"unmatched", always(client.Result{Allowed: true, Why: client.WhyNoLimit}), []grpclimit.ServerOption{grpclimit.Rules("shop")}, codes.OK, "", "", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, _ := serve(t, grpclimit.Server(tc.l, append([]grpclimit.ServerOption{calls}, tc.opts...)...), nil)
			var header, trailer metadata.MD
			_, err := c.UnaryCall(t.Context(), payload(3), grpc.Header(&header), grpc.Trailer(&trailer))
			if st := status.Convert(err); st.Code() != tc.code || st.Message() != tc.message {
				t.Errorf("%v, want %v %s", err, tc.code, tc.message)
			}
			if got := strings.Join(header.Get("ratelimit"), ","); got != tc.header {
				t.Errorf("header %s, want %s", got, tc.header)
			}
			if _, err := httpsfv.UnmarshalList(header.Get("ratelimit-policy")); err != nil {
				t.Error(err)
			}
			for k, want := range tc.trailer {
				if got := strings.Join(trailer.Get(k), ","); got != want {
					t.Errorf("trailer %s: %s, want %s", k, got, want)
				}
			}
		})
	}
}

// TestDetails checks that a refusal carries the same machine-readable details on both sides.
func TestDetails(t *testing.T) {
	server, _ := serve(t, grpclimit.Server(always(refused(1500*time.Millisecond)), calls), nil)
	own, _ := serve(t, nil, grpclimit.Client(always(refused(1500*time.Millisecond)), calls))
	for name, c := range map[string]pb.TestServiceClient{"server": server, "client": own} {
		_, err := c.UnaryCall(t.Context(), payload(3))
		var retry *errdetails.RetryInfo
		var quota *errdetails.QuotaFailure
		for _, d := range status.Convert(err).Details() {
			switch d := d.(type) {
			case *errdetails.RetryInfo:
				retry = d
			case *errdetails.QuotaFailure:
				quota = d
			}
		}
		if retry.GetRetryDelay().AsDuration() != 1500*time.Millisecond {
			t.Errorf("%s: %v: retry info %v", name, err, retry)
		}
		if v := quota.GetViolations(); len(v) != 1 || v[0].GetSubject() != "limit:shop/calls" || v[0].GetQuotaId() != "calls" || v[0].GetQuotaValue() != 20 || v[0].GetDescription() == "" {
			t.Errorf("%s: quota failure %v", name, quota)
		}
	}
	never, _ := serve(t, grpclimit.Server(always(refused(client.Never)), calls), nil)
	_, err := never.UnaryCall(t.Context(), payload(3))
	if d := status.Convert(err).Details(); len(d) != 1 {
		t.Errorf("no waiting helps, but %v", d)
	}
}

// TestAsked checks what server and client ask the limiter, for which method.
func TestAsked(t *testing.T) {
	check := func(limit, key string, cost int64) []client.HTTPCheck {
		return []client.HTTPCheck{{Namespace: "shop", Path: limit, Key: key, Cost: cost}}
	}
	const ip = "127.0.0.1"
	for _, tc := range []struct {
		name         string
		opts         []grpclimit.Option
		unary, empty []client.HTTPCheck
	}{
		{"limit", []grpclimit.Option{calls}, check("calls", ip, 1), check("calls", ip, 1)},
		{"method", []grpclimit.Option{grpclimit.Method(unaryCall, "shop", "unary")}, check("unary", ip, 1), nil},
		{"method and limit", []grpclimit.Option{grpclimit.Method(unaryCall, "shop", "unary"), calls}, check("unary", ip, 1), check("calls", ip, 1)},
		{"rules", []grpclimit.Option{grpclimit.Rules("shop")}, []client.HTTPCheck{{Namespace: "shop", Method: "POST", Path: unaryCall, Key: ip, Cost: 1}}, []client.HTTPCheck{{Namespace: "shop", Method: "POST", Path: emptyCall, Key: ip, Cost: 1}}},
		{"skip", []grpclimit.Option{calls, grpclimit.SkipMethods(emptyCall, "/x/y")}, check("calls", ip, 1), nil},
		{"metadata", []grpclimit.Option{calls, grpclimit.Key(extract.Metadata("x-tenant"))}, check("calls", "acme", 1), check("calls", "acme", 1)},
		{"joined", []grpclimit.Option{calls, grpclimit.Key(extract.Join(extract.Metadata("x-tenant"), extract.Method()))}, check("calls", "acme|"+unaryCall, 1), check("calls", "acme|"+emptyCall, 1)},
		{"missing", []grpclimit.Option{calls, grpclimit.Key(extract.Metadata("x-no"))}, check("calls", "*", 1), check("calls", "*", 1)},
		{"missing, skipped", []grpclimit.Option{calls, grpclimit.Key(extract.Metadata("x-no")), grpclimit.MissingKey(extract.Skip)}, nil, nil},
		{"cost", []grpclimit.Option{calls, grpclimit.Cost(extract.ContentLength(10, 99))}, check("calls", ip, 3), check("calls", ip, 1)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := &fake{}
			var server []grpclimit.ServerOption
			var own []grpclimit.ClientOption
			for _, o := range tc.opts {
				server, own = append(server, o), append(own, o)
			}
			ofServer, _ := serve(t, grpclimit.Server(l, server...), nil)
			ofClient, addr := serve(t, nil, grpclimit.Client(l, own...))
			for side, c := range map[string]pb.TestServiceClient{"server": ofServer, "client": ofClient} {
				ctx := metadata.AppendToOutgoingContext(t.Context(), "x-tenant", "acme")
				for method, want := range map[string][]client.HTTPCheck{unaryCall: tc.unary, emptyCall: tc.empty} {
					var err error
					if method == unaryCall {
						_, err = c.UnaryCall(ctx, payload(20))
					} else {
						_, err = c.EmptyCall(ctx, &pb.Empty{})
					}
					got := l.take()
					for i := range got {
						got[i].Key = strings.ReplaceAll(got[i].Key, addr, ip) // the address that a client calls
					}
					if err != nil || !reflect.DeepEqual(got, want) {
						t.Errorf("%s, %s: asked %+v (%v), want %+v", side, method, got, err, want)
					}
				}
			}
		})
	}
}

// exchange sends n messages and returns how many came back, and the status.
func exchange(t *testing.T, c pb.TestServiceClient, n int) (back int, code codes.Code) {
	t.Helper()
	s, err := c.FullDuplexCall(t.Context())
	if err != nil {
		return 0, status.Code(err)
	}
	for range n {
		if err := s.Send(&pb.StreamingOutputCallRequest{}); err != nil {
			if errors.Is(err, io.EOF) {
				_, err = s.Recv()
			}
			return back, status.Code(err)
		}
		if _, err := s.Recv(); err != nil {
			return back, status.Code(err)
		}
		back++
	}
	s.CloseSend()
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		return back, status.Code(err)
	}
	return back, codes.OK
}

// TestStreams checks that streams count when they open, or by their messages.
func TestStreams(t *testing.T) {
	for _, tc := range []struct {
		name    string
		passes  int
		message bool
		back    int
		code    codes.Code
		asked   int
	}{
		{"call", 1, false, 5, codes.OK, 1},
		{"call refused", 0, false, 0, codes.ResourceExhausted, 1},
		{"messages", 5, true, 5, codes.OK, 5},
		{"message refused", 3, true, 3, codes.ResourceExhausted, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, side := range []string{"server", "client"} {
				l := first(tc.passes, time.Hour)
				opts := []grpclimit.Option{calls}
				if tc.message {
					opts = append(opts, grpclimit.PerMessage())
				}
				var server []grpc.ServerOption
				var dial []grpc.DialOption
				if side == "server" {
					var o []grpclimit.ServerOption
					for _, opt := range opts {
						o = append(o, opt)
					}
					server = grpclimit.Server(l, o...)
				} else {
					var o []grpclimit.ClientOption
					for _, opt := range opts {
						o = append(o, opt)
					}
					dial = grpclimit.Client(l, o...)
				}
				c, _ := serve(t, server, dial)
				back, code := exchange(t, c, 5)
				if asked := len(l.take()); back != tc.back || code != tc.code || asked != tc.asked {
					t.Errorf("%s: %d back, %v, asked %d times; want %d, %v, %d", side, back, code, asked, tc.back, tc.code, tc.asked)
				}
			}
		})
	}
}

// TestStreamMetadata checks that a stream's header carries what a unary call's does, with the first
// message at the latest, and once, however many messages are counted.
func TestStreamMetadata(t *testing.T) {
	for _, opts := range [][]grpclimit.ServerOption{{calls}, {calls, grpclimit.PerMessage()}} {
		c, _ := serve(t, grpclimit.Server(&fake{}, opts...), nil)
		s, err := c.StreamingInputCall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			s.Send(&pb.StreamingInputCallRequest{})
		}
		res, err := s.CloseAndRecv()
		if err != nil || res.GetAggregatedPayloadSize() != 3 {
			t.Errorf("%v, %v", res, err)
		}
		header, _ := s.Header()
		list, err := httpsfv.UnmarshalList(header.Get("ratelimit"))
		if err != nil || len(list) != 1 || len(header.Get("ratelimit-policy")) != 1 {
			t.Errorf("%v: %v", header, err)
		}
	}
}

// stream is a stream whose caller sends messages without end. It counts the trailers that are set.
type stream struct {
	grpc.ServerStream
	trailers int
}

func (s *stream) Context() context.Context { return context.Background() }
func (s *stream) RecvMsg(any) error        { return nil }
func (s *stream) SetTrailer(metadata.MD)   { s.trailers++ }

// TestStreamTrailer checks that the trailer of a stream does not grow while its handler reads on
// after refusals.
func TestStreamTrailer(t *testing.T) {
	limited, s := grpclimit.StreamServerInterceptor(always(refused(time.Second)), calls, grpclimit.PerMessage()), &stream{}
	err := limited(nil, s, &grpc.StreamServerInfo{FullMethod: streamIn}, func(_ any, in grpc.ServerStream) error {
		for range 3 {
			if err := in.RecvMsg(nil); status.Code(err) != codes.ResourceExhausted {
				t.Errorf("%v", err)
			}
		}
		return nil
	})
	if err != nil || s.trailers != 1 {
		t.Errorf("%v, %d trailers", err, s.trailers)
	}
}

// TestClientStreamOfOneAnswer checks that a client stream counts its messages and ends.
func TestClientStreamOfOneAnswer(t *testing.T) {
	l := &fake{}
	c, _ := serve(t, nil, grpclimit.Client(l, calls, grpclimit.PerMessage()))
	s, err := c.StreamingInputCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := s.Send(&pb.StreamingInputCallRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	res, err := s.CloseAndRecv()
	if err != nil || res.GetAggregatedPayloadSize() != 3 || len(l.take()) != 3 {
		t.Errorf("%v, %v", res, err)
	}
}

// TestClientWaits checks that a client waits for its turn, and no longer than allowed.
func TestClientWaits(t *testing.T) {
	n := 0
	l := &fake{answer: func(client.HTTPCheck) (client.Result, error) {
		if n++; n <= 2 {
			return refused(20 * time.Millisecond), nil
		}
		return passed(1), nil
	}}
	c, _ := serve(t, nil, grpclimit.Client(l, calls, grpclimit.Wait(time.Minute)))
	start := time.Now()
	if _, err := c.UnaryCall(t.Context(), payload(1)); err != nil || time.Since(start) < 40*time.Millisecond || len(l.take()) != 3 {
		t.Errorf("%v after %v", err, time.Since(start))
	}
	n = -100
	c, _ = serve(t, nil, grpclimit.Client(l, calls, grpclimit.Wait(50*time.Millisecond)))
	if _, err := c.UnaryCall(t.Context(), payload(1)); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("%v", err)
	}
	n = 0
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if _, err := c.UnaryCall(ctx, payload(1)); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("%v", err)
	}
}

// TestRetryPushback checks that a client with a retry policy for RESOURCE_EXHAUSTED retries at the
// time that the limit gives, and does not retry where no wait helps.
func TestRetryPushback(t *testing.T) {
	const policy = `{"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":3,"initialBackoff":"60s","maxBackoff":"60s","backoffMultiplier":1,"retryableStatusCodes":["RESOURCE_EXHAUSTED"]}}]}`
	n := 0
	l := &fake{answer: func(client.HTTPCheck) (client.Result, error) {
		if n++; n == 1 {
			return refused(15 * time.Millisecond), nil
		}
		return passed(1), nil
	}}
	c, _ := serve(t, grpclimit.Server(l, calls), []grpc.DialOption{grpc.WithDefaultServiceConfig(policy)})
	start := time.Now()
	if _, err := c.UnaryCall(t.Context(), payload(1)); err != nil || time.Since(start) < 15*time.Millisecond || len(l.take()) != 2 {
		t.Errorf("%v after %v", err, time.Since(start))
	}
	never := always(refused(client.Never))
	c, _ = serve(t, grpclimit.Server(never, calls), []grpc.DialOption{grpc.WithDefaultServiceConfig(policy)})
	if _, err := c.UnaryCall(t.Context(), payload(1)); status.Code(err) != codes.ResourceExhausted || len(never.take()) != 1 {
		t.Errorf("%v", err)
	}
}

// TestNoTimeLeft checks that a caller whose deadline passes while the limiter is asked does not get
// through, even where errors let calls pass.
func TestNoTimeLeft(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	slow := &fake{answer: func(client.HTTPCheck) (client.Result, error) {
		<-ctx.Done()
		return client.Result{}, context.DeadlineExceeded
	}}
	reached := false
	_, err := grpclimit.UnaryServerInterceptor(slow, calls)(ctx, payload(1), &grpc.UnaryServerInfo{FullMethod: unaryCall}, func(context.Context, any) (any, error) {
		reached = true
		return nil, nil
	})
	if status.Code(err) != codes.DeadlineExceeded || reached {
		t.Errorf("%v, reached: %v", err, reached)
	}
}

// TestMistakes checks that invalid options panic at construction and name the mistake.
func TestMistakes(t *testing.T) {
	for want, f := range map[string]func(){
		"grpclimit: the limiter is nil; must be a client.Limiter":                                  func() { grpclimit.Server(nil, calls) },
		"grpclimit: no limit to check; give Limit(namespace, limit) or Rules(namespace)":           func() { grpclimit.Client(&fake{}) },
		`grpclimit: Method: "UnaryCall"; must be /package.Service/Method`:                          func() { grpclimit.Server(&fake{}, grpclimit.Method("UnaryCall", "a", "b")) },
		"grpclimit: Wait: -1ns; must not be negative":                                              func() { grpclimit.Client(&fake{}, calls, grpclimit.Wait(-1)) },
		fmt.Sprintf("grpclimit: Method %s: the namespace of the limit %q is empty", streamIn, "b"): func() { grpclimit.StreamServerInterceptor(&fake{}, grpclimit.Method(streamIn, "", "b")) },
		fmt.Sprintf("grpclimit: Method %s: no limit to check; give Limit(namespace, limit) or Rules(namespace)", fullDuplex): func() {
			grpclimit.StreamClientInterceptor(&fake{}, grpclimit.Method(fullDuplex, "a", ""))
		},
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("got %v, want %s", got, want)
				}
			}()
			f()
		}()
	}
}
