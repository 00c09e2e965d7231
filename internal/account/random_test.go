package account

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// random makes commands from few names, so that they collide.
type random struct {
	*rand.Rand
	w     *world
	refs  []*PolicyRef
	txs   []Tx
	fresh byte
}

func newRandom(w *world, seed uint64) *random {
	g := &random{Rand: rand.New(rand.NewPCG(seed, 1)), w: w}
	intervals := []uint32{0, 1, 60, 72, 3600, 21600, 86400}
	for i := range 6 {
		limit := g.Int64N(40)
		p := Policy{Limit: limit, Default: g.Int64N(limit + 1)}
		if i > 0 {
			p.Refill = Refill{Units: g.Int64N(21) - 10, Interval: intervals[g.IntN(len(intervals))], Offset: uint32(g.IntN(86401))}
			if p.Refill.Interval == 0 {
				p.Refill.Units = max(p.Refill.Units, -p.Refill.Units)
			}
		}
		if i > 3 {
			p.Lifetime = time.Duration(1+g.IntN(7200)) * time.Second
		}
		g.refs = append(g.refs, w.load(fmt.Sprintf("p%d", i), p))
	}
	w.purge(g.refs[1])
	g.refs = append(g.refs, nil, nil)
	return g
}

func (g *random) op() Op {
	deltas := []int64{0, 0, 1, -1, g.Int64N(41) - 20, MostDelta, -MostDelta}
	o := Op{
		Account: testID(string(rune('a' + g.IntN(6)))), Policy: g.refs[g.IntN(len(g.refs))],
		RelativeTo: RelativeTo(g.IntN(8)), Delta: deltas[g.IntN(len(deltas))], Options: OpOptions(g.IntN(8)),
	}
	if o.RelativeTo > Limit {
		o.RelativeTo = Balance
	}
	if o.Policy != nil && o.Policy == g.refs[1] && g.IntN(8) > 0 {
		o.Policy = nil
	}
	return o
}

func (g *random) request() *Request {
	ops := make([]Op, 1+g.IntN(3))
	for i := range ops {
		ops[i] = g.op()
	}
	id := ""
	if g.IntN(2) == 0 {
		id = strconv.Itoa(g.IntN(30))
	}
	r := g.w.request(fmt.Sprintf("user:%d", g.IntN(2)), id, ops...)
	r.TTL = time.Duration(g.IntN(3)) * time.Hour
	if id != "" && g.IntN(2) == 0 {
		r.Hash = HashOps(nil) // so that some hashes are equal
	}
	return r
}

func (g *random) tx() Tx {
	if len(g.txs) == 0 || g.IntN(3) == 0 {
		g.fresh++
		g.txs = append(g.txs, Tx{ID: TxID{g.fresh, byte(g.IntN(256))}, Home: quota.RangeID(1 + g.IntN(2))})
	}
	from := max(0, len(g.txs)-5)
	return g.txs[from+g.IntN(len(g.txs)-from)]
}

// more makes the other calls of a transaction, usually none.
func (g *random) more() (list []Request) {
	for range max(0, g.IntN(6)-2) {
		list = append(list, *g.request())
	}
	return list
}

// command makes a command for range 1.
func (g *random) command() Command {
	switch g.IntN(12) {
	case 0, 1:
		tx := g.tx()
		if tx.Home == 1 {
			return Command{Begin: &Begin{Tx: tx.ID, Home: 1, Others: []quota.RangeID{2}, Part: *g.request(), More: g.more()}}
		}
		return Command{Prepare: &Prepare{Tx: tx, Part: *g.request(), More: g.more()}}
	case 2, 3:
		tx := g.tx()
		if old := g.w.store.View().Pending(1); len(old) > 0 && g.IntN(2) == 0 {
			tx = old[0].Tx
		}
		if tx.Home == 1 {
			return Command{Decide: &Decide{Tx: tx.ID, Commit: g.IntN(2) == 0, Results: []Result{{New: g.Int64N(9)}}, More: [][]Result{{{New: g.Int64N(9)}}, nil, {{New: g.Int64N(9)}}}}}
		}
		return Command{Finish: &Finish{Tx: tx.ID, Commit: g.IntN(2) == 0}}
	case 4:
		tx := g.tx()
		if old := g.w.store.View().Pending(1); len(old) > 0 && g.IntN(2) == 0 {
			tx = old[0].Tx
		}
		return []Command{{Forget: &tx.ID}, {Finish: &Finish{Tx: tx.ID, Commit: true}}, {Decide: &Decide{Tx: tx.ID}}}[g.IntN(3)]
	case 5:
		return Command{Collect: &Collect{Max: g.IntN(5)}}
	}
	return Command{Apply: g.request()}
}
