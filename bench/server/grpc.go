package server

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// The methods that are called.
const (
	allowMethod  = "/quorate.v1.QuotaService/Allow"
	batchMethod  = "/quorate.v1.QuotaService/AllowBatch"
	streamMethod = "/quorate.v1.QuotaService/AllowStream"
)

// dialled holds the connections to a server, or in turn to the nodes of a cluster.
type dialled struct{ conns []*grpc.ClientConn }

// mostAnswer is larger than the answer to any batch, in bytes.
const mostAnswer = 64 << 20

// dial opens as many connections to a cluster as to a node, but at least one per node.
func dial(addrs []string) (*dialled, error) {
	d := &dialled{}
	for i := range max(grpcConns, len(addrs)) {
		c, err := grpc.NewClient(addrs[i%len(addrs)], grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{}), grpc.MaxCallRecvMsgSize(mostAnswer)))
		if err != nil {
			return nil, errors.Join(err, d.close())
		}
		d.conns = append(d.conns, c)
	}
	return d, nil
}

func (d *dialled) close() error {
	var errs []error
	for _, c := range d.conns {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// admitted returns an error unless an answer begins like an admission: of one check, of one on a
// stream, or of a batch.
func admitted(answer []byte, checks int) error {
	if len(answer) > 2 && answer[0] == 1<<3|2 && checks == 1 {
		answer = answer[2:]
	}
	if checks == 1 && (len(answer) < 2 || answer[0] != 1<<3 || answer[1] != 1) || len(answer) < 20*checks {
		return fmt.Errorf("an answer of %d bytes to %d checks is no admission: %x", len(answer), checks, answer[:min(len(answer), 40)])
	}
	return nil
}

// caller returns a function that makes one call on a connection, for repeated use.
func caller(ctx context.Context, conn *grpc.ClientConn, rng *rand.Rand, method string, reqs []*raw, checks int) func() error {
	out := new(raw)
	return func() error {
		if err := conn.Invoke(ctx, method, reqs[rng.IntN(len(reqs))], out); err != nil {
			return err
		}
		return admitted(out.data, checks)
	}
}

// closed is a closed loop: callers call again as soon as they get the answer.
func (d *dialled) closed(callers int, method string, reqs []*raw, checks int) load {
	return func(ctx context.Context, length time.Duration) (int, []time.Duration, error) {
		return crowd(callers, length, func(i int, rng *rand.Rand) (func() error, error) {
			return caller(ctx, d.conns[i%len(d.conns)], rng, method, reqs, checks), nil
		}, checks)
	}
}

// streamed keeps one check in flight on each of count streams.
func (d *dialled) streamed(count int, reqs []*raw) load {
	return func(ctx context.Context, length time.Duration) (int, []time.Duration, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		return crowd(count, length, func(i int, rng *rand.Rand) (func() error, error) {
			s, err := d.conns[i%len(d.conns)].NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, streamMethod)
			if err != nil {
				return nil, err
			}
			out := new(raw)
			return func() error {
				if err := s.SendMsg(reqs[rng.IntN(len(reqs))]); err != nil {
					return err
				}
				if err := s.RecvMsg(out); err != nil {
					return err
				}
				return admitted(out.data, 1)
			}, nil
		}, 1)
	}
}
