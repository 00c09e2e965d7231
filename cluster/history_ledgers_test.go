package cluster

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"weak"

	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
)

// TestHistoryLetsLedgersGo checks that a node's measurements of a range do not keep the ledger, which has all
// keys of the range, reachable after the node has given up the range.
func TestHistoryLetsLedgersGo(t *testing.T) {
	n := loneNode()
	r := n.ranges.Of(0)
	r.Lead(2)
	n.Recorder.Uploader.MeasureAll(1)
	var ledger weak.Pointer[leader.Ledger]
	r.With(func(l *leader.Ledger, _ quota.Time) { ledger = weak.Make(l) })
	r.Follow()
	runtime.GC()
	if ledger.Value() != nil {
		t.Fatal("the ledger is still reachable")
	}
	runtime.KeepAlive(n)
}

// TestHistoryOfWhoHasGone checks that a query whose caller has gone reads nothing.
func TestHistoryOfWhoHasGone(t *testing.T) {
	n := loneNode()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := n.History(ctx, history.Query{Limit: keysLimit, From: 0, End: 60, Step: 60})
	_, errKeys := n.HistoryKeys(ctx, history.KeysQuery{Limit: keysLimit, From: 0, End: 60, Top: 1})
	_, _, errLimits := n.HistoryLimits(ctx, 0, 60)
	for _, err := range []error{err, errKeys, errLimits} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v; want that it was canceled", err)
		}
	}
}

// keysLimit is an undefined limit.
var keysLimit = quota.LimitName{Namespace: "n", Limit: "l"}
