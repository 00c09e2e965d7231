package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// quick is a limit that hardly refills. One node gets quick calls for a part of the burst, then
// another node gets the rest, up to nine tenths of the burst, so every call fits.
type quick struct {
	nodes, first, then int // nodes: how many; then: the node asked after first
	burst, part        int // in tokens; part: the calls at the first node
	every, gap, delay  time.Duration
}

func (q quick) run(seed uint64) Result {
	return Run(Scenario{
		Seed: seed, Nodes: q.nodes, Limit: limit(1, int64(q.burst), quota.Soft), Near: true, Skew: -1, Delay: q.delay,
		Requests: func(yield func(Request) bool) {
			at := 3 * time.Second
			for i := range q.burst * 9 / 10 {
				node, after := q.first, q.every
				if i >= q.part {
					node, after = q.then, q.gap
				}
				if !yield(Request{At: at, Key: "k", Node: node, Cost: 1}) {
					return
				}
				at += after
			}
		},
	})
}

// TestQuickCalls checks that ten calls a millisecond apart at one node of three are not taken for a
// surge: none of the eighty single calls that follow at another node is refused. The first node
// leads.
func TestQuickCalls(t *testing.T) {
	for _, gap := range []time.Duration{5, 15, 50} {
		for _, at := range [][2]int{{2, 3}, {2, 1}, {1, 2}} {
			for _, delay := range []time.Duration{100 * time.Microsecond, time.Millisecond} {
				q := quick{3, at[0], at[1], 100, 10, time.Millisecond, gap * time.Millisecond, delay}
				for seed := range uint64(10) {
					if r := q.run(seed); r.Under > 0 {
						t.Errorf("%+v, seed %d: %d of %d refused, and the burst is 100", q, seed, r.Under, r.Attempted)
					}
				}
			}
		}
	}
}

// TestQuickBursts plays bursts of all sizes and speeds, up to half of the whole burst at once,
// before calls at another node. What nodes cannot learn within the wait for a grant they still
// guess: the test allows one refusal in five hundred calls. It was one in fifty before leaders
// asked the members whose use they presume.
func TestQuickBursts(t *testing.T) {
	var refused, asked int64
	for seed := range uint64(600) {
		rng := rand.New(rand.NewPCG(seed, 5))
		pick := func(v ...int) int { return v[rng.IntN(len(v))] }
		q := quick{nodes: pick(2, 3, 5, 10), burst: pick(20, 100, 1000)}
		q.part = q.burst * pick(5, 10, 30, 50) / 100
		q.first = 1 + rng.IntN(q.nodes)
		q.then = 1 + (q.first+rng.IntN(q.nodes-1))%q.nodes
		q.every = time.Duration(pick(100, 1000, 3000)) * time.Microsecond
		q.gap = time.Duration(pick(1, 2, 5, 15, 50)) * time.Millisecond
		q.delay = time.Duration(pick(100, 1000, 5000)) * time.Microsecond
		r := q.run(seed)
		refused, asked = refused+r.Under, asked+r.Attempted
	}
	part := fmt.Sprintf("%d of %d refused", refused, asked)
	if refused > asked/500 {
		t.Errorf("%s; want at most one in 500", part)
	}
	t.Log(part)
}
