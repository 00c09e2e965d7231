package load

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/cli/cluster"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/limits"
	"github.com/quorate/quorate/internal/cli/remote"
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

// findLimit reads the limit as the cluster has it.
func findLimit(ctx context.Context, t *remote.Targets, name quota.LimitName, to *quota.Limit) error {
	res, err := limits.GetLimits(ctx, t, nil)
	if err != nil {
		return err
	}
	list, err := limits.ParseAnswer(res)
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
		return exit.NotFoundf("limit %v: the cluster has no limits; apply a file with \"quorate limits apply FILE\"", name)
	}
	return exit.NotFoundf("limit %v: the cluster has no such limit; it has %d: %s", name, len(list), strings.Join(names, ", "))
}

// measurable says whether the ideal that a run is compared with knows the limit.
func measurable(l *quota.Limit) error {
	if l.Class != quota.Counted || l.Kind != quota.TokenBucket || len(l.More) > 0 {
		return exit.Usagef("limit %v: is no token bucket with a single tier; only those can be compared with the ideal", l.LimitName)
	}
	return nil
}

// warnUnready says that what follows measures a cluster that is not ready.
func warnUnready(ctx context.Context, t *remote.Targets, messages io.Writer) {
	if st, err := cluster.GetStatus(ctx, t); err == nil && (!st.Ready || st.Leaderless != "") {
		fmt.Fprintf(messages, "quorate: the cluster is not ready: %s\n", cmp.Or(st.Reason, st.Leaderless))
	}
}
