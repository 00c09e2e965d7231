package retry

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/quorate/quorate/client"
)

type refused time.Duration

func (r refused) Error() string             { return "refused" }
func (r refused) RetryAfter() time.Duration { return time.Duration(r) }

func info(d time.Duration) error {
	st, err := status.New(codes.ResourceExhausted, "refused").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(d)})
	if err != nil {
		panic(err)
	}
	return st.Err()
}

// TestDo checks which errors Do retries, how often, and how long it waits.
func TestDo(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		err         error // of all calls but the last
		fails       int
		opts        []Option
		calls       int
		least, most time.Duration
		is          error
	}{
		"passes":              {calls: 1},
		"refused twice":       {err: refused(time.Second), fails: 2, calls: 3, least: 2 * time.Second, most: 2300 * time.Millisecond},
		"gRPC says when":      {err: info(3 * time.Second), fails: 1, calls: 2, least: 3 * time.Second, most: 3100 * time.Millisecond},
		"no node":             {err: client.ErrUnavailable, fails: 3, calls: 4, most: 700 * time.Millisecond},
		"for ever":            {err: refused(client.Never), fails: 9, calls: 1, is: refused(client.Never)},
		"not worth it":        {err: broken, fails: 9, calls: 1, is: broken},
		"all are worth it":    {err: broken, fails: 9, opts: []Option{If(func(error) bool { return true }), Times(3)}, calls: 3, most: 300 * time.Millisecond, is: broken},
		"as often as may":     {err: refused(time.Millisecond), fails: 9, opts: []Option{Times(2), Pauses(time.Millisecond, time.Millisecond)}, calls: 2, most: 2 * time.Millisecond, is: refused(time.Millisecond)},
		"beyond the deadline": {err: refused(time.Hour), fails: 9, calls: 1, is: refused(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				calls, start := 0, time.Now()
				got, err := Do(ctx, func(context.Context) (int, error) {
					if calls++; calls <= c.fails {
						return 0, c.err
					}
					return calls, nil
				}, c.opts...)
				if !errors.Is(err, c.is) || calls != c.calls || err == nil && got != c.calls {
					t.Errorf("%d %v after %d calls; want %d and %v", got, err, calls, c.calls, c.is)
				}
				if took := time.Since(start); took < c.least || took > max(c.most, 0) {
					t.Errorf("took %v; want %v to %v", took, c.least, c.most)
				}
			})
		})
	}
}

// TestNever checks that Do does not retry at once an error that says never, nor one that says to
// come back in centuries.
func TestNever(t *testing.T) {
	always := If(func(error) bool { return true })
	for _, after := range []time.Duration{client.Never, client.Never - 1} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context()) // without a deadline
			time.AfterFunc(time.Hour, cancel)
			calls := 0
			_, err := Do(ctx, func(context.Context) (int, error) { calls++; return 0, refused(after) }, always)
			if calls != 1 || !errors.Is(err, refused(after)) {
				t.Errorf("again in %v: %d calls, %v; want one", after, calls, err)
			}
		})
	}
}

// TestFullJitter checks that pauses lie anywhere between 0 and a bound that doubles.
func TestFullJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var short, long, sum time.Duration = time.Hour, 0, 0
		for range 200 {
			start := time.Now()
			_, _ = Do(t.Context(), func(context.Context) (int, error) { return 0, refused(0) }, Times(2), Pauses(time.Second, time.Second))
			d := time.Since(start)
			short, long, sum = min(short, d), max(long, d), sum+d
		}
		if mean := sum / 200; short > 50*time.Millisecond || long < 950*time.Millisecond || long > time.Second+1 || mean < 400*time.Millisecond || mean > 600*time.Millisecond {
			t.Errorf("pauses of %v to %v, %v on average; want all of 0 to 1s", short, long, mean)
		}
	})
}
