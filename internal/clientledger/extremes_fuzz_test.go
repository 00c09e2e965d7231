package clientledger

import (
	"math"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
)

// FuzzExtremes makes calls of extreme amounts at two client processes and at their node, whose
// leader is one step above: checks, charges and refunds of 1 to the largest cost, while streams
// break. Every report must be accepted by its receiver, no counter may fall below 0 or wrap, hard
// admits no more than the limit, and in the end the key must serve again.
//
// The first byte selects the limit; every two of the others are a call.
func FuzzExtremes(f *testing.F) {
	f.Add([]byte{0, 0, 5, 0, 5, 0, 5, 6, 9})
	f.Add([]byte{3, 0x10, 5, 0x10, 4, 0x20, 5, 0x31, 5, 6, 0, 0x50, 3, 0x07, 0xff, 1, 5, 0x10, 5})
	f.Add([]byte{9, 0, 4, 1, 4, 2, 5, 3, 5, 4, 5, 5, 5, 6, 2, 7, 0, 0, 5, 1, 5, 2, 5})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 3 || len(data) > 400 {
			return
		}
		newExtremes(t, data[0]).play(data[1:])
	})
}

// TestExtremes plays the case of a process that lost its node permanently: a limit of bytes, most
// of it used, and requests for all of it.
func TestExtremes(t *testing.T) {
	for shape := range byte(extremeShapes) {
		calls := []byte{0, 2, 6, 3}
		for range 150 {
			calls = append(calls, 0, 4, 1, 4)
		}
		newExtremes(t, shape).play(append(calls, 6, 9))
	}
}

type extremes struct {
	*world
	limit   quota.Limit
	spent   float64 // admitted less refunded
	first   quota.Time
	charged bool // after the fact
}

const extremeShapes = 12

func newExtremes(t testing.TB, shape byte) *extremes {
	const most = quota.MaxTokens
	l := bucketLimit(quota.Ceiling(shape%2), 1, most)
	switch shape / 2 % 6 {
	case 0:
		l.SetFirst(quota.Tier{Rate: quota.Rate{Tokens: most, Per: time.Second}, Burst: most})
	case 1:
		l.SetFirst(quota.Tier{Rate: quota.Rate{Tokens: 1_000_000_000, Per: time.Second}, Burst: 4_000_000_000_000})
	case 2:
		l.SetFirst(quota.Tier{Rate: quota.Rate{Tokens: most / 1_000_000, Per: time.Microsecond}, Burst: most})
	case 3:
		l.SetFirst(quota.Tier{Rate: quota.Rate{Tokens: 1, Per: 24 * time.Hour}, Burst: 1})
	case 4:
		l.SetFirst(quota.Window(quota.FixedWindow, most, time.Second))
	case 5:
		l.SetFirst(quota.Window(quota.SlidingWindow, most, time.Second))
	}
	l.Ceiling, l.Decide = []quota.Ceiling{quota.Soft, quota.Hard}[shape%2], quota.Locally // to allocate tokens
	return &extremes{world: newWorld(t, l, 2), limit: l, first: start}
}

func (x *extremes) cost(b byte) int64 {
	switch b % 8 {
	case 0:
		return 1
	case 1:
		return x.limit.Burst/3 + 1
	case 2:
		return x.limit.Burst/4*3 + 1
	case 3:
		return x.limit.Burst - 1
	case 4:
		return x.limit.Burst
	case 5:
		return quota.MaxTokens
	case 6:
		return x.limit.Burst + 1
	}
	return math.MaxInt64
}

func (x *extremes) play(calls []byte) {
	n := x.limit.LimitName
	for i := 0; i+1 < len(calls); i += 2 {
		p, cost := x.procs[calls[i]>>4%2], x.cost(calls[i+1])
		switch calls[i] % 8 {
		case 0, 1, 2:
			if x.check(p.agg, n, "k", cost).Allowed {
				x.spent += float64(cost)
			}
		case 3:
			if x.check(x.node, n, "k", cost).Allowed {
				x.spent += float64(cost)
			}
		case 4:
			if cost <= quota.MaxTokens {
				p.agg.Refund(x.clock, n, "k", cost)
				x.spent = math.Inf(-1) // refunded tokens may be used again
			}
		case 5:
			if cost <= quota.MaxTokens {
				x.charged = true
				x.node.Charge(x.clock, n, "k", cost)
				x.spent = math.Inf(-1)
			}
		case 6:
			x.now = x.now.Add(time.Duration(calls[i+1]) * 20 * time.Millisecond)
			x.exchange()
		case 7:
			x.reconnect(p)
		}
		x.hold()
	}
	for range 400 { // a pause, in which debts of some bursts are paid if a second refills one
		x.now = x.now.Add(50 * time.Millisecond)
		x.exchange()
		x.b.Sweep(x.now)
	}
	x.hold()
	// Slower refill need not have finished, nor charges after the fact be paid.
	served := x.charged || x.limit.Rate.TimeFor(x.limit.BurstUnits()) > 10*time.Second
	for range 40 {
		for _, p := range x.procs {
			served = served || x.check(p.agg, n, "k", 1).Allowed
		}
		x.now = x.now.Add(50 * time.Millisecond)
		x.exchange()
	}
	if !served {
		k, _ := x.ledger.Key(x.now, quota.Key{LimitName: n, Key: "k"})
		x.t.Errorf("nothing of cost 1 is admitted 20 s after the large amounts: %+v", k)
	}
}

// exchange delivers all pending messages, in their network encoding.
func (x *extremes) exchange() {
	for range 3 {
		for _, p := range x.procs {
			for _, r := range p.agg.Collect(x.now) {
				r := x.over(p.id, &r)
				g, err := x.b.Report(x.now, &r)
				if err != nil {
					x.t.Fatalf("the node refuses a report: %v", err)
				}
				x.grant(p.id, "n", &g, p.agg.Apply)
			}
		}
		for _, r := range x.node.Collect(x.now) {
			r := x.over("n", &r)
			g, err := x.ledger.Report(x.now, r)
			if err != nil {
				x.t.Fatalf("the leader refuses a report: %v", err)
			}
			x.grant("n", "l", &g, x.node.Apply)
		}
		for _, g := range x.ledger.Pushed() {
			x.grant("n", "l", &g, x.node.Apply)
		}
		x.commit()
		for _, g := range x.b.Push(x.now) {
			for _, p := range x.procs {
				if p.id == g.To {
					x.grant(p.id, "n", &g, p.agg.Apply)
				}
			}
		}
	}
	x.prove()
}

func (x *extremes) over(from quota.NodeID, r *quota.Report) quota.Report {
	got, err := peerproto.ParseReport(from, peerproto.EncodeReport(r))
	if err != nil {
		x.t.Fatalf("%s makes a report that nobody takes: %v", from, err)
	}
	return got
}

func (x *extremes) grant(to, from quota.NodeID, g *quota.Grant, apply func(quota.Time, quota.Grant)) {
	got, err := peerproto.ParseGrant(from, to, peerproto.EncodeGrant(g))
	if err != nil {
		x.t.Fatalf("%s makes a grant that nobody takes: %v", from, err)
	}
	apply(x.now, got)
}

// reconnect breaks a process's stream, and settles it through the next.
func (x *extremes) reconnect(p *proc) {
	x.b.Detach(x.now, p.id, 1, p.term)
	lasts := p.agg.Leave(x.now, 0)
	x.attach(p)
	for i := range lasts {
		r := x.over(p.id, &lasts[i])
		if err := x.b.Final(x.now, &r); err != nil {
			x.t.Fatalf("the node refuses a settlement: %v", err)
		}
	}
}

// hold checks the reported state of the key against its possible range.
func (x *extremes) hold() {
	x.t.Helper()
	k, ok := x.ledger.Key(x.now, quota.Key{LimitName: x.limit.LimitName, Key: "k"})
	if !ok || k.Attempted < 0 || k.Admitted < 0 || k.Refused < 0 || k.Remaining < 0 || k.Remaining > x.limit.Burst || k.Needless < 0 || k.NeedlessAtMost < k.Needless || k.OverAdmitted < 0 ||
		k.Demand < 0 || math.IsNaN(k.Demand) || math.IsInf(k.Demand, 0) || math.IsNaN(k.Utilisation) {
		x.t.Fatalf("the leader tells %+v", k)
	}
	x.ledger.LiveErrors(func(_ quota.LimitName, e *quota.LiveError) {
		if e.Attempted < 0 || e.Admitted < 0 || e.OverAdmitted < 0 || e.CutOff < 0 || e.Needless < 0 || e.NeedlessAtMost < 0 || e.Worst < 0 {
			x.t.Fatalf("live error %+v", e)
		}
	})
	for _, a := range []interface {
		Held(k quota.Key) quota.Units
	}{x.node, x.procs[0].agg, x.procs[1].agg} {
		if h := a.Held(quota.Key{LimitName: x.limit.LimitName, Key: "k"}); h < 0 || h > x.limit.BurstUnits() {
			t := x.t
			t.Fatalf("held: %d of a burst of %d", h, x.limit.BurstUnits())
		}
	}
	per := x.limit.Rate.Per
	windows := 1 + float64(x.now.Sub(x.first))/float64(per)
	if most := float64(x.limit.Burst) + float64(x.limit.Rate.Tokens)*windows; x.limit.Ceiling == quota.Hard && x.spent > most*(1+1e-9) {
		x.t.Fatalf("hard admitted %.0f of %.0f", x.spent, most)
	}
}
