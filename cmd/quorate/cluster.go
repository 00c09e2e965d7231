package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
)

// everySecond calls f once per second until stop is called.
func everySecond(f func(since time.Duration)) (stop func()) {
	start, ticker := time.Now(), time.NewTicker(time.Second)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ticker.C:
				f(time.Since(start))
			case <-quit:
				return
			}
		}
	}()
	return func() { ticker.Stop(); close(quit); <-done }
}

// awaitLimits waits until every node that can be reached has the version.
func (t *targets) awaitLimits(ctx context.Context, addrs []string, version uint64) error {
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	for _, addr := range addrs {
		for {
			var have uint64
			err := t.callAlone(ctx, addr, func(ctx context.Context, conn *grpc.ClientConn) error {
				st, err := quoratev1.NewClusterServiceClient(conn).GetStatus(ctx, &quoratev1.GetStatusRequest{})
				have = st.GetLimitsVersion()
				return err
			})
			if err != nil && ctx.Err() == nil || err == nil && have >= version {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("node %s still has version %d of the limits, not %d; see \"quorate status\"", addr, have, version)
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	return nil
}

// findLimit reads the limit as the cluster has it.
func findLimit(ctx context.Context, t *targets, name quota.LimitName, to *quota.Limit) error {
	res, err := getLimits(ctx, t, nil)
	if err != nil {
		return err
	}
	list, err := parseAnswer(res)
	if err != nil {
		return err
	}
	var names []string
	for _, l := range list {
		if l.LimitName == name {
			*to = l
			return measurable(&l)
		}
		if len(names) < 10 {
			names = append(names, l.String())
		}
	}
	if len(list) == 0 {
		return notFoundf("limit %v: the cluster has no limits; apply a file with \"quorate limits apply FILE\"", name)
	}
	return notFoundf("limit %v: the cluster has no such limit; it has %d: %s", name, len(list), strings.Join(names, ", "))
}

// measurable says whether the ideal that a run is compared with knows the limit.
func measurable(l *quota.Limit) error {
	if l.Class != quota.Counted || l.Kind != quota.TokenBucket || len(l.More) > 0 {
		return usagef("limit %v: is no token bucket with a single tier; only those can be compared with the ideal", l.LimitName)
	}
	return nil
}

// warnUnready says that what follows measures a cluster that is not ready.
func warnUnready(ctx context.Context, t *targets, messages io.Writer) {
	if st, err := getStatus(ctx, t); err == nil && (!st.Ready || st.Leaderless != "") {
		fmt.Fprintf(messages, "quorate: the cluster is not ready: %s\n", cmp.Or(st.Reason, st.Leaderless))
	}
}
