package aggregator

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// pair is two members with the same calls and grants: one compacts all keys at rest after every step, the other none.
// No result may differ.
type pair struct {
	t         *testing.T
	rng       *rand.Rand
	both      [2]*Aggregator // the first compacts
	gone      [2][]quota.Key
	now       quota.Time
	own       overrideMap
	seq       quota.Seq
	term      quota.Term
	loose     []quota.Report // not answered yet
	compacted int
	step      int
	calm      bool // keys are closed at different times, and in order
}

type overrideMap map[quota.Key]*quota.Override

func (m overrideMap) Override(k quota.Key) *quota.Override { return m[k] }

func newPair(t *testing.T, seed uint64, calm bool, cfg Config) *pair {
	p := &pair{t: t, rng: rand.New(rand.NewPCG(seed, 7)), now: start, own: overrideMap{}, term: 1, calm: calm}
	cfg.Self, cfg.Ranges, cfg.Incarnation, cfg.Overrides = "a", 2, 1, p.own
	for i := range p.both {
		c := cfg
		c.Removed = func(k quota.Key) { p.gone[i] = append(p.gone[i], k) }
		p.both[i] = New(c, start)
		p.both[i].SetLeader(0, "l", 1)
		p.both[i].SetLeader(1, "l", 1)
	}
	p.both[0].compactIn, p.both[1].neverCompact = 0, true
	p.limits(1)
	return p
}

// each makes the same call on both and compares the results.
func (p *pair) each(what string, f func(a *Aggregator) any) any {
	p.t.Helper()
	got, want := f(p.both[0]), f(p.both[1])
	if !reflect.DeepEqual(got, want) {
		p.t.Fatalf("step %d, %s: the one that freezes says\n%+v\nthe other\n%+v", p.step, what, got, want)
	}
	return want
}

var pairKinds = []quota.Kind{quota.TokenBucket, quota.FixedWindow, quota.SlidingWindow, quota.PeriodicRefill}

// limits has all kinds and both ceilings, and changes from version to version.
func (p *pair) limits(version uint64) {
	var list []quota.Limit
	for i, kind := range pairKinds {
		for j, c := range []quota.Ceiling{quota.Soft, quota.Hard} {
			n := fmt.Sprintf("l%d%d", i, j)
			if version > 1 && p.rng.IntN(12) == 0 {
				continue // it is removed
			}
			burst := 5 + p.rng.Int64N(20)
			l := quota.Limit{LimitName: quota.LimitName{Namespace: "n", Limit: n}, Kind: kind, Ceiling: c, Rate: quota.Rate{Tokens: 10, Per: time.Second}, Burst: burst}
			if kind != quota.TokenBucket {
				l.Rate = quota.Rate{Tokens: burst, Per: 10 * time.Second}
			}
			if !p.calm && p.rng.IntN(6) == 0 {
				l.Enforcement = quota.Off
			}
			list = append(list, l)
		}
	}
	list = append(list,
		quota.Limit{LimitName: quota.LimitName{Namespace: "n", Limit: "tiers"}, Rate: quota.Rate{Tokens: 20, Per: time.Second}, Burst: 9, More: []quota.Tier{{Kind: quota.FixedWindow, Rate: quota.Rate{Tokens: 30, Per: time.Minute}, Burst: 30}}},
		quota.Limit{LimitName: quota.LimitName{Namespace: "n", Limit: "busy"}, Kind: quota.Concurrency, Burst: 4},
		quota.Limit{LimitName: quota.LimitName{Namespace: "n", Limit: "asked"}, Rate: quota.Rate{Tokens: 20, Per: time.Second}, Burst: 9, Decide: quota.AtLeader},
	)
	limits, err := quota.NewLimits(version, list)
	if err != nil {
		p.t.Fatal(err)
	}
	p.each("limits", func(a *Aggregator) any { a.SetLimits(p.now, limits); return a.Len() })
}

func (p *pair) key() quota.Key {
	names := []string{"tiers", "busy", "asked", "l00", "l00", "l01", "l10", "l11", "l20", "l21", "l30", "l31"}
	return quota.Key{
		LimitName: quota.LimitName{Namespace: "n", Limit: names[p.rng.IntN(len(names))]},
		Key:       strings.Repeat("k", p.rng.IntN(2)*30) + strconv.Itoa(p.rng.IntN(6)),
	}
}

func (p *pair) clock() quota.Time { return p.now }

func (p *pair) ask() {
	k, cost := p.key(), p.rng.Int64N(4)
	q, final := p.key(), p.rng.IntN(2) == 0
	switch p.rng.IntN(12) {
	case 0, 1, 2:
		p.each("check", func(a *Aggregator) any { return a.checkNow(p.clock, k.LimitName, k.Key, cost) })
	case 3, 4:
		p.each("held", func(a *Aggregator) any {
			d, ok := a.TryHeld(k.LimitName, k.Key, cost)
			return []any{d, ok}
		})
	case 5:
		p.each("simple", func(a *Aggregator) any {
			d, need, ok := a.TrySimple(p.clock, k.LimitName, k.Key, cost)
			return []any{d, need, ok}
		})
	case 6:
		p.each("decide", func(a *Aggregator) any {
			var c Call
			c.Reset([]quota.Request{{Key: k, Cost: cost}, {Key: q, Cost: 1}}, make([]quota.Decision, 2))
			c.Final, c.Acquires = final, true
			return []any{a.Decide(p.clock, &c), c.Out, c.Need, c.Key, c.Ask}
		})
	case 7:
		p.each("charge", func(a *Aggregator) any {
			booked, d := a.Charge(p.clock, k.LimitName, k.Key, cost)
			return []any{booked, d}
		})
	case 8:
		p.each("refund", func(a *Aggregator) any { return a.Refund(p.clock, k.LimitName, k.Key, cost) })
	case 9:
		p.each("release", func(a *Aggregator) any { a.Release(p.clock, k.LimitName, k.Key, cost, nil); return a.Held(k) })
	case 10:
		p.each("abandon", func(a *Aggregator) any { return a.Cancel(p.clock, quota.Ask{Key: k, Cost: 1, ID: p.seq + 1}) })
	case 11:
		p.lend(k)
	}
}

func (p *pair) lend(k quota.Key) {
	w := AllocationRequest{Tokens: quota.Units(p.rng.IntN(4)) * quota.Token, Wait: quota.Units(p.rng.IntN(2)) * quota.Token, Look: p.rng.IntN(2) == 0}
	l := p.each("lend", func(a *Aggregator) any { return a.Allocate(p.clock, k, w) }).(Allocation)
	if l.Tokens > 0 || p.rng.IntN(4) == 0 {
		s := Settlement{Gen: l.Gen, Back: l.Tokens, Used: min(l.Tokens, quota.Token), Void: quota.Units(p.rng.IntN(2))}
		p.each("settle", func(a *Aggregator) any { return a.Settle(p.clock, k, s) })
	}
}

// look makes calls that do not open a key, and calls that change many keys.
func (p *pair) look() {
	k := p.key()
	switch p.rng.IntN(8) {
	case 0, 1:
		p.each("standing", func(a *Aggregator) any { return a.Standing(p.clock, k) })
	case 2:
		o := &quota.Override{Key: k, Burst: 3 + p.rng.Int64N(30)}
		if p.own[k] != nil {
			o = nil
		}
		if p.own[k] = o; o == nil {
			delete(p.own, k)
		}
		p.each("override", func(a *Aggregator) any {
			keys := []quota.Key{k}
			if p.seq%2 == 0 {
				keys = nil
			}
			a.Overridden(p.now, keys)
			return nil
		})
	case 3:
		p.limits(uint64(p.step) + 2)
	case 4:
		n := p.rng.IntN(5)
		p.each("nodes", func(a *Aggregator) any { a.SetNodes(n); a.SetPeers(n); return nil })
	case 5:
		p.each("recalls", func(a *Aggregator) any { return a.Recalls() })
	case 6:
		if p.rng.IntN(4) == 0 {
			p.term++
			p.each("leader", func(a *Aggregator) any { a.SetLeader(0, "l", p.term); a.SetLeader(1, "l", p.term); return nil })
		}
	case 7:
		p.each("draw", func(a *Aggregator) any { return a.Draw(p.clock, k, 3) })
	}
}

// report collects, and answers some of the collected reports.
func (p *pair) report() {
	reps := p.each("collect", func(a *Aggregator) any { return inOrder(a.Collect(p.now)) }).([]quota.Report)
	p.loose = append(p.loose, reps...)
	for len(p.loose) > 0 && p.rng.IntN(8) > 0 {
		i := p.rng.IntN(len(p.loose))
		rep := p.loose[i]
		p.loose = slices.Delete(p.loose, i, i+1)
		p.answer(&rep)
	}
}

// inOrder sorts entries: changed limits are applied in no fixed order, also without compaction.
func inOrder(reps []quota.Report) []quota.Report {
	for i := range reps {
		reps[i].Entries = slices.Clone(reps[i].Entries)
		slices.SortFunc(reps[i].Entries, func(x, y quota.ReportEntry) int { return compareKeys(x.Key, y.Key) })
	}
	return reps
}

func compareKeys(x, y quota.Key) int {
	return cmp.Or(strings.Compare(x.LimitName.Limit, y.LimitName.Limit), strings.Compare(x.Key, y.Key))
}

func (p *pair) answer(rep *quota.Report) {
	g := quota.Grant{Range: rep.Range, Term: rep.Term, From: "l", To: "a", At: p.now - 12345, Incarnation: 1}
	for i := range rep.Entries {
		e := &rep.Entries[i]
		p.seq++
		x := quota.GrantEntry{
			Key: e.Key, Epoch: e.Epoch, Seq: p.seq, Ack: rep.Seq, Tokens: quota.Units(p.rng.IntN(5)) * quota.Token,
			Rate: quota.Units(p.rng.IntN(3)) * quota.Token, Cap: 5 * quota.Token, Level: quota.Units(p.rng.IntN(20)-2) * quota.Token,
			Free: quota.Units(p.rng.IntN(10)) * quota.Token, Others: quota.Units(p.rng.IntN(3)) * quota.Token, Unseen: quota.Units(p.rng.IntN(2)) * quota.Token,
			Lease: 3 * time.Second, Again: 100 * time.Millisecond, Saved: e.Used + e.Overdrawn, Closed: e.Final, Credit: quota.Token,
			Recall: !e.Final && p.rng.IntN(20) == 0,
		}
		if e.Window != 0 {
			x.WindowStart, x.WindowEnd = e.Window, e.Window.Add(10*time.Second)
		}
		if g.Entries = append(g.Entries, x); p.calm {
			p.apply(g)
			g.Entries, p.now = nil, p.now+1
		}
	}
	p.apply(g)
}

func (p *pair) apply(g quota.Grant) {
	p.each("apply", func(a *Aggregator) any {
		g.Entries = slices.Clone(g.Entries)
		a.Apply(p.now, g)
		return nil
	})
}

// pass advances the clock and sweeps.
func (p *pair) pass() {
	p.now = p.now.Add(time.Duration(p.rng.Int64N(int64(time.Millisecond) << p.rng.IntN(11))))
	if p.rng.IntN(60) == 0 {
		p.now = p.now.Add(time.Duration(p.rng.Int64N(int64(2 * time.Minute))))
	}
	p.each("sweep", func(a *Aggregator) any { a.Sweep(p.now); return nil })
	for i := range p.gone {
		slices.SortFunc(p.gone[i], compareKeys)
	}
	if !slices.Equal(p.gone[0], p.gone[1]) {
		p.t.Fatalf("step %d: dropped %v, and %v", p.step, p.gone[0], p.gone[1])
	}
	p.gone = [2][]quota.Key{}
	p.compacted = max(p.compacted, int(p.both[0].table.compact.size.Load()))
}

// compare compares the state of every key.
func (p *pair) compare() {
	p.t.Helper()
	all := [2]map[quota.Key]*bucket{{}, {}}
	a := p.both[0]
	for i := range a.table.compact.shards {
		s := &a.table.compact.shards[i]
		for r, ok := s.next(0); ok; r, ok = s.next(r.at + r.size) {
			b := &bucket{entry: s.kinds.list[r.kind].entry, key: string(r.key), state: newState()}
			b.entryPtr.Store(&hotEntry{})
			s.restore(&a.table.compact, &r, b)
			all[0][quota.Key{LimitName: b.entry.name, Key: b.key}] = b
		}
	}
	for i, a := range p.both {
		for _, s := range a.entries() {
			s.keys.Range(func(b *bucket) { all[i][quota.Key{LimitName: s.name, Key: b.key}] = b })
		}
	}
	got, want, shared := len(all[0]), len(all[1]), 0
	for k := range all[0] {
		if k.Key == overflowKey { // takes no place
			shared++
		}
	}
	if got != want || got-shared != a.Len() {
		p.t.Fatalf("step %d: %d keys, %d, and it says %d", p.step, got, want, a.Len())
	}
	for k, want := range all[1] {
		got := all[0][k]
		if got == nil || got.phase != want.phase {
			p.t.Fatalf("step %d: %v: %+v, and %+v", p.step, k, got, want)
		}
		if want.phase == closed && want.as != nil {
			g, w := got.compact(p.now), want.compact(p.now)
			if g[packedEpoch], w[packedEpoch] = 0, 0; g != w || got.changed != want.changed || got.as.First() != want.as.First() {
				p.t.Fatalf("step %d: %v: closed, %v\nand %v", p.step, k, g, w)
			}
		}
	}
}

// seeds are fewer under the race detector: this test has no concurrency.
func seeds() uint64 {
	if raced {
		return 1
	}
	return 8
}

// TestCompactAsWhole: a member that compacts keys at rest decides, reports and drops the same as one that does not,
// and has the same state.
func TestCompactAsWhole(t *testing.T) {
	for seed := range seeds() {
		p := newPair(t, seed, false, Config{Idle: 20 * time.Second})
		for p.step = range 1200 {
			switch p.rng.IntN(8) {
			case 0, 1, 2, 3:
				p.ask()
			case 4:
				p.look()
			default:
				p.report()
			}
			p.pass()
		}
		p.compare()
		if p.compacted < 5 {
			t.Errorf("seed %d: at most %d keys were compacted", seed, p.compacted)
		}
	}
}

// TestCompactMakesRoom: when the table is nearly full, the same keys are dropped: the longest idle.
func TestCompactMakesRoom(t *testing.T) {
	for seed := range seeds() {
		p := newPair(t, seed, true, Config{Idle: time.Minute, MaxKeys: 30})
		for p.step = range 1000 {
			if p.rng.IntN(2) == 0 {
				k := p.key()
				p.each("check", func(a *Aggregator) any { return a.checkNow(p.clock, k.LimitName, k.Key, 1) })
			}
			p.report()
			p.pass()
		}
		p.compare()
	}
}

// TestCold: the store contains exactly the keys that were put and not taken, under any sequence of calls.
func TestCold(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	l := quota.Limit{Burst: 1}
	entries := []*limitEntry{{keys: newKeys()}, {keys: newKeys()}, {keys: newKeys()}}
	c := &compactStore{}
	type name struct {
		of  *limitEntry
		key string
	}
	all := map[name]quota.Time{}
	for i := range 30_000 {
		n := name{entries[rng.IntN(len(entries))], strconv.Itoa(rng.IntN(6000)) + strings.Repeat("x", rng.IntN(40))}
		h := n.of.keys.hash(n.key)
		at, there := all[n]
		if got := c.has(h, n.of, n.key); got != there {
			t.Fatalf("%d: %v is there: %v, want %v", i, n, got, there)
		}
		switch {
		case there:
			b := &bucket{entry: n.of, key: n.key, state: newState()}
			if !c.take(h, b) || c.take(h, b) || b.changed != at || b.est != quota.Units(at) || b.as != &l {
				t.Fatalf("%d: %v is %+v, want one closed at %v", i, n, b.state, at)
			}
			delete(all, n)
		case i < 20_000:
			f := packedState{packedEst: int64(i), packedEstAt: -5}
			if !c.put(h, kind{n.of, &l}, n.key, quota.Time(i), &f) {
				t.Fatal("no room")
			}
			all[n] = quota.Time(i)
		}
		if i%100 == 0 {
			for s := range c.shards {
				c.shards[s].rebuildIfSparse(c)
				c.shards[s].takeRestored()
			}
		}
	}
	got := map[name]quota.Time{}
	for i := range c.shards {
		s := &c.shards[i]
		if s.gaps > s.end/6 && s.gaps > chunkBytes {
			t.Errorf("%d bytes of gaps in %d", s.gaps, s.end)
		}
		for r, ok := s.next(0); ok; r, ok = s.next(r.at + r.size) {
			got[name{s.kinds.list[r.kind].entry, string(r.key)}] = c.closedAt(&r)
		}
	}
	if !maps.Equal(got, all) || c.size.Load() != int64(len(all)) {
		t.Errorf("%d keys, and it says %d; want %d", len(got), c.size.Load(), len(all))
	}
	if c.put(1, kind{entries[0], &l}, strings.Repeat("x", chunkBytes), 1, &packedState{}) {
		t.Error("a key longer than a chunk was taken")
	}
}
