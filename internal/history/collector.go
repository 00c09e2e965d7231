package history

import (
	"maps"
	"slices"

	"github.com/quorate/quorate/internal/quota"
)

// Patience is for how many seconds after a block's end a collector waits for
// processes that were alive in it. What comes later makes a line of its own.
const Patience = 3 * BlockSeconds

// Collector gathers what is told to the leader of a range, and makes lines of it. It
// lives as long as the leader's term. One goroutine at a time.
type Collector struct {
	kept   *Kept // of this replica, which has applied all lines of earlier leaders
	blocks map[Block]*gathering
	ended  map[Process]Block // the last block of those that have said so
	began  Block             // before it, the log and others say who was alive
}

// gathering is a block of which not all is in the log.
type gathering struct {
	alive  map[Process]bool
	told   map[Process]*Told
	flying []Process // in a line that is on its way into the log
}

// NewCollector returns the collector of a leader that begins in that second.
func NewCollector(now Second, kept *Kept) *Collector {
	return &Collector{kept: kept, blocks: map[Block]*gathering{}, ended: map[Process]Block{}, began: now.Block()}
}

func (c *Collector) at(b Block) *gathering {
	g := c.blocks[b]
	if g == nil {
		g = &gathering{alive: map[Process]bool{}, told: map[Process]*Told{}}
		if b <= c.began {
			c.kept.expect(b, g.alive)
		}
		c.blocks[b] = g
	}
	return g
}

// Alive notes who is alive. To be called every second, so that every block has
// seen who lived in it.
func (c *Collector) Alive(now Second, all []Process) {
	c.at(now.Block())
	for _, p := range all {
		c.lives(now.Block(), p)
	}
}

// lives notes that a process lived in a block, unless it has stopped before: its connections may
// end a little later.
func (c *Collector) lives(b Block, p Process) {
	if last, ended := c.ended[p]; ended && last < b || c.kept.over(p, b) {
		return
	}
	c.at(b).alive[p] = true
}

// stops notes that a process tells of no later block.
func (c *Collector) stops(p Process, last Block) {
	c.ended[p] = last
	for b, g := range c.blocks {
		if b > last {
			delete(g.alive, p)
		}
	}
}

// Take takes what a process tells, its oldest block first. It returns how many of the
// first ones are in the log already, or come too late to be added, so that the process
// need not tell them again. What is of a block that has not begun is not taken: the
// teller's clock is ahead.
func (c *Collector) Take(now Second, all []Told) (done int) {
	for i := range all {
		t := &all[i]
		switch {
		case c.kept.Has(t.From, t.Block):
			if done == i {
				done++
			}
		case t.Block <= now.Block():
			c.at(t.Block).told[t.From] = t
			c.saw(t)
			if t.Last {
				c.stops(t.From, t.Block)
			}
		}
	}
	return done
}

// saw makes processes expected that others saw before this leader could.
func (c *Collector) saw(t *Told) {
	for _, p := range t.Seen {
		for b := t.Block; b <= max(c.began, t.Block); b++ {
			c.lives(b, p)
		}
	}
}

// Lines returns lines to be written now, the oldest block first: of blocks of which
// all who were alive have told, or that have been waited for; and of the block under way
// what those have told who tell no more. Nothing is returned twice until Written says what
// became of it.
func (c *Collector) Lines(now Second) []Line {
	var out []Line
	maps.DeleteFunc(c.ended, func(_ Process, last Block) bool { return last < now.Block()-MaxBehind })
	for _, b := range slices.Sorted(maps.Keys(c.blocks)) {
		g := c.blocks[b]
		if len(g.flying) > 0 {
			continue
		}
		c.drop(b, g)
		if b.End() > now {
			if len(g.told) > 0 {
				out = append(out, g.line(b))
			}
			continue
		}
		complete := c.complete(b, g)
		switch {
		case b < now.Block()-MaxBehind, complete && len(g.told) == 0:
			delete(c.blocks, b) // Take makes it anew, for who comes late
		case len(g.told) > 0 && (complete || b.End()+Patience <= now || c.leaves(g)):
			out = append(out, g.line(b))
		}
	}
	return out
}

// leaves reports whether one who has told of the block tells no more: it waits for the log.
func (c *Collector) leaves(g *gathering) bool {
	for p := range g.told {
		if _, ended := c.ended[p]; ended {
			return true
		}
	}
	return false
}

// drop forgets what the log has got meanwhile, from an earlier line.
func (c *Collector) drop(b Block, g *gathering) {
	maps.DeleteFunc(g.told, func(p Process, _ *Told) bool { return c.kept.Has(p, b) })
}

// complete reports whether all who were alive have told, now or before.
func (c *Collector) complete(b Block, g *gathering) bool {
	for p := range g.alive {
		if _, told := g.told[p]; !told && !c.kept.Has(p, b) {
			return false
		}
	}
	return true
}

func (g *gathering) line(b Block) Line {
	l := Line{Block: b, Expected: sorted(maps.Keys(g.alive)), From: sorted(maps.Keys(g.told))}
	sums := map[quota.LimitName]*Vector{}
	for _, p := range l.From {
		if g.told[p].Last {
			l.Ended = append(l.Ended, p)
		}
		for i := range g.told[p].Slices {
			s := &g.told[p].Slices[i]
			if sums[s.Limit] == nil {
				sums[s.Limit] = &Vector{}
			}
			sums[s.Limit].Add(&s.Counts)
		}
	}
	for _, limit := range slices.SortedFunc(maps.Keys(sums), compareLimits) {
		l.Slices = append(l.Slices, Slice{limit, *sums[limit]})
	}
	l.Slices = few(l.Slices)
	g.flying = l.From
	return l
}

func sorted(all func(func(Process) bool)) []Process { return slices.SortedFunc(all, compareProcesses) }

// Written says what became of the line of a block: it is in the log, and applied here,
// or it is not and will be made again.
func (c *Collector) Written(b Block, ok bool) {
	g := c.blocks[b]
	if g == nil {
		return
	}
	if ok {
		for _, p := range g.flying {
			delete(g.told, p)
		}
	}
	g.flying = nil
}
