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
