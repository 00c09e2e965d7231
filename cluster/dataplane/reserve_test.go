package dataplane

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/aggregator"
	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/fairshare"
	"github.com/quorate/quorate/internal/quota"
)

// noNode is a node without any peers.
type noNode struct{}

func (noNode) Leader(quota.RangeID) quota.NodeID { return "" }
func (noNode) Up(quota.NodeID) bool              { return false }
func (noNode) Call(context.Context, quota.NodeID, *peerv1.Call) (*peerv1.Call, error) {
	return nil, errors.New("nobody is there")
}
func (noNode) Send(quota.NodeID, *peerv1.Frame) {}
func (noNode) Worked()                          {}
func (noNode) Tick(quota.Time)                  {}

// limit returns a limit that refills nothing while a test runs.
func limit(name string, burst int64, ceiling quota.Ceiling) quota.Limit {
	return quota.Limit{
		LimitName: quota.LimitName{Namespace: "test", Limit: name},
		Rate:      quota.Rate{Tokens: 5, Per: time.Hour}, Burst: burst, Ceiling: ceiling,
	}
}

// alone returns a Decider with the given limits that has not been started.
func alone(t testing.TB, limits ...quota.Limit) *Decider {
	t.Helper()
	all, err := quota.NewLimits(1, limits)
	if err != nil {
		t.Fatal(err)
	}
	now := func() quota.Time { return quota.Time(time.Now().UnixNano()) }
	d := New(&Config{
		Self: "n1", Ranges: 1, Sync: 100 * time.Millisecond, Now: now, Limits: all, Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
		Aggregator: aggregator.Config{Self: "n1", Incarnation: 1, Nodes: 1, Ranges: 1, Sync: 100 * time.Millisecond},
	}, noNode{})
	d.agg.SetLimits(now(), all)
	return d
}

// TestReservationShares checks that one identity cannot take all slots for reservations, and that a
// reservation that takes nothing of a limit takes no slot.
func TestReservationShares(t *testing.T) {
	full, shadow, flight := limit("full", quota.MaxTokens, quota.Soft), limit("shadow", 1, quota.Soft), limit("flight", 1, quota.Soft)
	shadow.Enforcement = quota.Shadow
	flight.Kind, flight.Rate, flight.Enforcement = quota.Concurrency, quota.Rate{}, quota.Off
	d := alone(t, full, shadow, flight)
	d.reserved.places = fairshare.New(100, 25)
	out := make([]quota.Decision, 1)
	reserve := func(owner, limit string, ttl time.Duration) (quota.Reservation, error) {
		t.Helper()
		r, ok, err := d.Reserve(owner, []quota.Request{{Key: quota.Key{LimitName: quota.LimitName{Namespace: "test", Limit: limit}, Key: "k"}, Cost: 1}}, ttl, out)
		if err == nil && !ok {
			t.Fatalf("%s: refused: %v", limit, out[0].Why)
		}
		return r, err
	}
	if _, err := reserve("first", "shadow", 0); err != nil { // takes its token
		t.Fatal(err)
	}
	for _, limit := range []string{"shadow", "flight"} {
		r, err := reserve("greedy", limit, 24*time.Hour)
		if open := d.reserved.places.Held(); err != nil || open != 1 {
			t.Fatalf("%s: %d reservations are open, %v; want only the one that took something", limit, open, err)
		}
		if err := d.Settle(t.Context(), r.Handle, 5); err != nil {
			t.Errorf("%s: settled: %v", limit, err)
		}
	}
	for i := range 100 {
		if _, err := reserve("greedy", "full", time.Hour); err != nil {
			if !errors.Is(err, quota.ErrTooManyReservations) || i != 25 {
				t.Fatalf("after %d: %v; want 25, and ErrTooManyReservations", i, err)
			}
			break
		}
	}
	for _, owner := range []string{"another", ""} {
		r, err := reserve(owner, "full", time.Hour)
		if err != nil {
			t.Fatalf("%q: %v", owner, err)
		}
		if err := d.Settle(t.Context(), r.Handle, 0); err != nil {
			t.Fatal(err)
		}
	}
	d.expire(d.now().Add(2 * time.Hour))
	if _, err := reserve("greedy", "full", time.Hour); err != nil {
		t.Errorf("when the others have expired: %v", err)
	}
}

// TestUncounted checks that a reservation that took nothing gives nothing back when it is settled.
func TestUncounted(t *testing.T) {
	for _, w := range quota.Whys() {
		want := w == quota.WhyNotEnforced || w == quota.WhyUnlimited || w == quota.WhyOpen || w == quota.WhyTooManyKeys
		if got := uncounted(&quota.Decision{Allowed: true, Why: w}); got != want {
			t.Errorf("%v: uncounted %v, want %v", w, got, want)
		}
		if !uncounted(&quota.Decision{Allowed: true, Shadow: true, Why: w}) {
			t.Errorf("%v in shadow: counted", w)
		}
	}
}

// TestReservationOfAnotherLimit checks that a reservation gives nothing back to a limit that has been removed and added
// again since, or that has begun or ceased to count requests in flight, nor to a default or a parent that it did not
// charge.
func TestReservationOfAnotherLimit(t *testing.T) {
	flight := limit("l", 3, quota.Soft)
	flight.Kind, flight.Rate = quota.Concurrency, quota.Rate{}
	bucket, other := limit("l", 3, quota.Soft), limit("other", 1, quota.Soft)
	byDefault, child, parent := limit(quota.Default, 3, quota.Soft), limit("l", 30, quota.Soft), limit("parent", 3, quota.Soft)
	orphan := child
	child.Parent = "parent"
	for _, c := range []struct {
		name  string
		first quota.Limit
		next  [][]quota.Limit
	}{
		{"places of a limit that was removed", flight, [][]quota.Limit{{other}, {flight}}},
		{"tokens of a limit that was removed", bucket, [][]quota.Limit{{other}, {bucket}}},
		{"tokens of a limit that counts requests in flight now", bucket, [][]quota.Limit{{flight}}},
		{"tokens of a limit that was removed, and has a default", bucket, [][]quota.Limit{{byDefault}}},
		{"tokens of a limit without the parent that it has now", orphan, [][]quota.Limit{{child, parent}}},
		{"places of a limit that counts tokens now", flight, [][]quota.Limit{{bucket}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := alone(t, c.first)
			version := uint64(1)
			apply := func(list []quota.Limit) {
				t.Helper()
				version++
				all, err := quota.NewLimits(version, list)
				if err != nil {
					t.Fatal(err)
				}
				d.agg.SetLimits(d.now(), all)
				d.limits.Store(all)
			}
			take := func() (r quota.Reservation, n int) {
				t.Helper()
				out := make([]quota.Decision, 1)
				for n < 3 {
					one, ok, err := d.Reserve("", []quota.Request{{Key: quota.Key{LimitName: c.first.LimitName, Key: "k"}, Cost: 1}}, time.Hour, out)
					if err != nil {
						t.Fatal(err)
					}
					if !ok {
						return r, n
					}
					r, n = one, n+1
				}
				return r, n
			}
			before, n := take()
			if n != 3 {
				t.Fatalf("%d reserved; want 3", n)
			}
			for _, list := range c.next {
				apply(list)
			}
			take()
			if err := d.Settle(t.Context(), before.Handle, 0); err != nil {
				t.Fatal(err)
			}
			if _, n := take(); n != 0 {
				t.Errorf("the reservation of before gave %d back", n)
			}
		})
	}
}
