package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"

	"github.com/quorate/quorate/bench/process"
	"github.com/quorate/quorate/bench/suite"
)

// emptyRole is the role in which this program is the empty server. Its arguments are the addresses
// for gRPC, HTTP and profiles, and the number of goroutines for calls.
const emptyRole = "empty"

func init() {
	process.Roles[emptyRole] = func(args []string) error {
		workers, err := strconv.Atoi(args[3])
		if err != nil {
			return err
		}
		return serveEmpty(args[0], args[1], args[2], workers)
	}
}

// raw is a message that is kept as bytes.
type raw struct{ data []byte }

// ignored is a message that is not even copied.
type ignored struct{}

// rawCodec passes on messages unchanged, under the name of the default codec.
type rawCodec struct{}

var _ encoding.CodecV2 = rawCodec{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.(*raw).data)}, nil
}

// Unmarshal reuses the buffer if the bytes fit, so that it does not allocate.
func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(*raw)
	if !ok {
		return nil
	}
	n := data.Len()
	if cap(r.data) < n {
		r.data = make([]byte, n)
	}
	r.data = r.data[:n]
	data.CopyTo(r.data)
	return nil
}

func emptyCall(answer *raw) func(any, context.Context, func(any) error, grpc.UnaryServerInterceptor) (any, error) {
	return func(_ any, _ context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		return answer, dec(ignored{})
	}
}

func emptyStream(answer *raw) grpc.StreamHandler {
	return func(_ any, s grpc.ServerStream) error {
		for {
			if err := s.RecvMsg(ignored{}); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			if err := s.SendMsg(answer); err != nil {
				return err
			}
		}
	}
}

func serveEmpty(grpcAddr, httpAddr, debugAddr string, workers int) error {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", grpcAddr)
	if err != nil {
		return err
	}
	options := []grpc.ServerOption{grpc.ForceServerCodecV2(rawCodec{})}
	if workers > 0 {
		options = append(options, grpc.NumStreamWorkers(uint32(workers)))
	}
	srv := grpc.NewServer(options...)
	srv.RegisterService(&grpc.ServiceDesc{
		ServiceName: "quorate.v1.QuotaService",
		Methods: []grpc.MethodDesc{
			{MethodName: "Allow", Handler: emptyCall(&raw{sampleAnswer()})},
			{MethodName: "AllowBatch", Handler: emptyCall(&raw{sampleBatchAnswer()})},
		},
		Streams: []grpc.StreamDesc{{StreamName: "AllowStream", Handler: emptyStream(&raw{sampleStreamAnswer()}), ServerStreams: true, ClientStreams: true}},
	}, nil)
	failed := make(chan error, 3)
	go func() { failed <- srv.Serve(l) }()
	go func() { failed <- http.ListenAndServe(debugAddr, profiles()) }()
	go func() {
		failed <- http.ListenAndServe(httpAddr, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	}()
	return <-failed
}

// streamWorkers is the number of goroutines for calls per processor in the empty server: as many as
// in a node, because any gRPC server can have them.
const streamWorkers = 32

// emptyServer is the empty server under the load that on makes from its addresses.
func emptyServer(name string, on func(r *runner, grpcAddr, httpAddr string) error) suite.Subject {
	return emptyOf(name, streamWorkers*runtime.GOMAXPROCS(0), on)
}

// emptyOf is the empty server with the given number of goroutines for calls; 0 is gRPC's default, a
// new goroutine per call.
func emptyOf(name string, workers int, on func(r *runner, grpcAddr, httpAddr string) error) suite.Subject {
	return suite.Subject{Name: name, Start: func(ctx context.Context) (suite.Runner, error) {
		return begin(ctx, func(r *runner) error {
			addrs, err := freeAddrs(3)
			if err != nil {
				return err
			}
			p, err := process.Role(emptyRole, append(addrs, strconv.Itoa(workers))...)
			if err != nil {
				return err
			}
			r.servers, r.debug = []*process.Process{p}, addrs[2:3]
			r.closers = append(r.closers, p.Close)
			for _, a := range addrs {
				if err := p.AwaitPort(ctx, a); err != nil {
					return err
				}
			}
			return on(r, addrs[0], addrs[1])
		})
	}}
}

func emptyGRPC(load func(*dialled) load) suite.Subject {
	return emptyServer(empty, func(r *runner, addr, _ string) error { return r.dial([]string{addr}, load) })
}

// emptyDefault is the empty server with gRPC's default options.
func emptyDefault(load func(*dialled) load) suite.Subject {
	return emptyOf(empty+", gRPC's defaults", 0, func(r *runner, addr, _ string) error { return r.dial([]string{addr}, load) })
}
