package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/connectivity"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/bench/suite"
)

// The durable limits: windows that begin with the run, end long after it and are never used up, so that what
// remains shows what their leaders have counted, or withhold.
const (
	durableLimits = `      durable-soft: {limit: 1000000, per: 366d, window: periodic, durable: true}
      durable-hard: {limit: 1000000, per: 366d, window: periodic, durable: true, ceiling: hard}
`
	durableLimit  = 1_000_000
	durableKeys   = 100                   // of each
	durableAsks   = 10 * time.Millisecond // between the calls of a caller
	durableSettle = 20 * time.Second      // until nodes have reported, and journals are read
)

var durableNames = []string{"durable-soft", "durable-hard"}

// durable counts the answers to calls on a durable limit. Call i is on key i modulo durableKeys, so that
// a call that is lost is not made up for by another one that is counted twice.
type durable struct {
	limit string
	next  atomic.Int64
	keys  [durableKeys]struct{ admitted, unanswered atomic.Int64 }
}

// ask makes one call, and no second one: it has no request ID. It calls no node that is down.
func (d *durable) ask(l *load, node int) {
	if conn := l.conns[node]; conn.GetState() != connectivity.Ready {
		conn.Connect()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	i := d.next.Add(1) % durableKeys
	res, err := quoratev1.NewQuotaServiceClient(l.conns[node]).Allow(ctx, &quoratev1.AllowRequest{Namespace: "soak", Limit: d.limit, Key: strconv.FormatInt(i, 10)})
	switch {
	case err != nil:
		d.keys[i].unanswered.Add(1)
	case res.GetAllowed():
		d.keys[i].admitted.Add(1)
	}
}

// durable returns a line for each limit, and whether every key is counted correctly: each admitted call once, and
// one without an answer once or not at all.
func (e *exact) durable(ctx context.Context) (text string, ok bool, err error) {
	var out strings.Builder
	ok = true
	for _, d := range e.durables {
		var counted, admitted, unanswered int64
		var wrong []string
		for until := time.Now().Add(durableSettle); ; time.Sleep(200 * time.Millisecond) {
			counted, admitted, unanswered, wrong = 0, 0, 0, nil
			for i := range d.keys {
				n, err := d.counted(ctx, e.l, i)
				if err != nil {
					return "", false, err
				}
				told, open := d.keys[i].admitted.Load(), d.keys[i].unanswered.Load()
				counted, admitted, unanswered = counted+n, admitted+told, unanswered+open
				if n < told || n > told+open {
					wrong = append(wrong, fmt.Sprintf("%d: %+d", i, n-told))
				}
			}
			if len(wrong) == 0 || time.Now().After(until) {
				break
			}
		}
		right := len(wrong) == 0 && admitted > 0
		ok = ok && right
		fmt.Fprintf(&out, "| calls on %d keys of the limit %s, at their leaders | %s | %s admitted, and none to %s of %s without an answer; of each key | %v |\n", durableKeys, d.limit,
			suite.Number(float64(counted)), suite.Number(float64(admitted)), suite.Number(float64(unanswered)), suite.Number(float64(unanswered)), right)
		if len(wrong) > 0 {
			fmt.Fprintf(&out, "| wrong keys, and their difference | %s | | |\n", strings.Join(wrong, ", "))
		}
	}
	return out.String(), ok, nil
}

// counted returns what the leader of a key has counted.
func (d *durable) counted(ctx context.Context, l *load, key int) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	res, err := quoratev1.NewKeyServiceClient(l.conns[0]).GetKey(ctx, &quoratev1.GetKeyRequest{Namespace: "soak", Limit: d.limit, Key: strconv.Itoa(key)})
	if err != nil {
		return 0, err
	}
	if len(res.Counters) != 1 {
		return 0, errors.New("a durable key without its counter")
	}
	return durableLimit - res.Counters[0].Remaining, nil
}
