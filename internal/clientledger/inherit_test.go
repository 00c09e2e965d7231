package clientledger

import (
	"errors"
	"testing"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
)

// TestInheritChargesOnce: under hard, all that a node has allocated to a client counts as used when the node dies, or
// when it has forgotten the session. The client's last report, which then arrives, charges none of it again.
func TestInheritChargesOnce(t *testing.T) {
	l := bucketLimit(quota.Hard, 1, 100)
	l.Decide = quota.Locally
	k := quota.Key{LimitName: l.LimitName, Key: "k"}
	begin := func(t *testing.T) (*world, []quota.Report) {
		w := newWorld(t, l, 1)
		p := w.procs[0]
		for range 20 {
			w.ask(p, l.LimitName, k.Key, 1)
			w.run(5*time.Millisecond, 5*time.Millisecond)
		}
		if !w.check(p.agg, l.LimitName, k.Key, 3).Allowed {
			t.Fatal("the client holds nothing")
		}
		lasts := p.agg.Leave(w.now, 0)
		w.procs = nil
		if n := len(lasts); n != 1 || lasts[0].Entries[0].Unreported < 3*quota.Token {
			t.Fatalf("%d last reports: %+v; want one, with at least 3 unreported tokens", n, lasts)
		}
		return w, lasts
	}
	t.Run("dead", func(t *testing.T) {
		w, lasts := begin(t)
		w.ledger.MemberGone(w.now, "n", 2)
		before, _ := w.ledger.Key(w.now, k)
		w.node = aggregator.New(aggregator.Config{Self: "m", Incarnation: 1, Nodes: 2, Ranges: 1}, w.now)
		w.node.SetLimits(w.now, w.limits)
		w.node.SetLeader(0, "l", 1)
		w.b = New(Config{Self: "m"}, w.node)
		w.b.Inherit(w.now, &lasts[0])
		w.run(200*time.Millisecond, 10*time.Millisecond)
		if after, _ := w.ledger.Key(w.now, k); after.Remaining != before.Remaining {
			t.Errorf("%d remain without the dead node, %d with its client's last report", before.Remaining, after.Remaining)
		}
	})
	t.Run("forgotten", func(t *testing.T) {
		w, lasts := begin(t)
		w.b.Detach(w.now, "c0", 1, 1)
		w.now = w.now.Add(2 * remember)
		w.b.Sweep(w.now)
		w.run(200*time.Millisecond, 10*time.Millisecond)
		before := w.ledger.Booked(l.LimitName)
		if err := w.b.Final(w.now, &lasts[0]); !errors.Is(err, ErrForgotten) {
			t.Fatalf("got %v; want ErrForgotten", err)
		}
		w.b.Inherit(w.now, &lasts[0])
		w.run(200*time.Millisecond, 10*time.Millisecond)
		if after := w.ledger.Booked(l.LimitName); after != before || before < 13*quota.Token {
			t.Errorf("%d tokens are booked of the forgotten session, %d with its last report; want 13 or more, and no change", before.Tokens(), after.Tokens())
		}
	})
}
