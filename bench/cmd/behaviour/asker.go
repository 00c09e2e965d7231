package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// tally counts the results of checks.
type tally struct{ asked, admitted, errors int64 }

func (t *tally) add(o tally) {
	t.asked, t.admitted, t.errors = t.asked+o.asked, t.admitted+o.admitted, t.errors+o.errors
}

// print writes a row; most is the number that may be admitted.
func (t *tally) print(what string, most int64) {
	fmt.Printf("| %s | %d | %d | %d | %d | %d |\n", what, most, t.asked, t.admitted, max(t.admitted-most, 0), t.errors)
}

// asker holds a connection to each node.
type asker struct{ conns []*grpc.ClientConn }

func newAsker(addrs []string) (*asker, error) {
	a := &asker{}
	for _, addr := range addrs {
		c, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, errors.Join(err, a.close())
		}
		a.conns = append(a.conns, c)
	}
	return a, nil
}

func (a *asker) close() error {
	var errs []error
	for _, c := range a.conns {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// atOnce is the number of concurrent checks.
const atOnce = 64

// many makes n checks, on the nodes in turn.
func (a *asker) many(ctx context.Context, n int, nodes []int, of func(i int) *quoratev1.AllowRequest) tally {
	var sum tally
	var mu sync.Mutex
	var wg sync.WaitGroup
	for w := range atOnce {
		wg.Go(func() {
			var t tally
			for i := w; i < n; i += atOnce {
				t.add(a.one(ctx, nodes[i%len(nodes)], of(i)))
			}
			mu.Lock()
			sum.add(t)
			mu.Unlock()
		})
	}
	wg.Wait()
	return sum
}

func (a *asker) one(ctx context.Context, node int, req *quoratev1.AllowRequest) tally {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	res, err := quoratev1.NewQuotaServiceClient(a.conns[node]).Allow(ctx, req)
	t := tally{asked: 1}
	switch {
	case err != nil:
		t.errors = 1
	case res.GetAllowed():
		t.admitted = 1
	}
	return t
}

// burst checks one key as fast as it can.
func (a *asker) burst(ctx context.Context, limit, key string, n int, nodes []int) tally {
	return a.many(ctx, n, nodes, func(int) *quoratev1.AllowRequest {
		return &quoratev1.AllowRequest{Namespace: "b", Limit: limit, Key: key}
	})
}

// drain checks each of n keys the given number of times.
func (a *asker) drain(ctx context.Context, n, times int, nodes []int) tally {
	return a.many(ctx, n*times, nodes, func(i int) *quoratev1.AllowRequest {
		return &quoratev1.AllowRequest{Namespace: "b", Limit: "counted", Key: fmt.Sprintf("account:%d", i/times)}
	})
}
