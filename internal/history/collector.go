package history

import (
	"maps"
	"slices"

	"github.com/quorate/quorate/internal/quota"
)

// Patience is how many seconds after a slot's end a collector waits for processes that were alive in the
// slot. Later uploads get a line of their own.
const Patience = 3 * SlotSeconds

// Collector collects uploads at the leader of a range and turns them into lines. It lasts for the
// leader's term. It is not safe for concurrent use.
type Collector struct {
	recent *Recent // this replica's state, with all lines of earlier leaders applied
	slots  map[Slot]*openSlot
	ended  map[Process]Slot // the last slot of processes that announced their end
	began  Slot             // for slots up to it, the log and other processes say who was alive
}

// openSlot is a slot that the log has only in part.
type openSlot struct {
	alive    map[Process]bool
	uploads  map[Process]*Upload
	inFlight []Process // in a line on its way into the log
}

// NewCollector returns a collector for a leader whose term begins at now.
func NewCollector(now Second, recent *Recent) *Collector {
	return &Collector{recent: recent, slots: map[Slot]*openSlot{}, ended: map[Process]Slot{}, began: now.Slot()}
}

func (c *Collector) slot(b Slot) *openSlot {
	g := c.slots[b]
	if g == nil {
		g = &openSlot{alive: map[Process]bool{}, uploads: map[Process]*Upload{}}
		if b <= c.began {
			c.recent.addExpected(b, g.alive)
		}
		c.slots[b] = g
	}
	return g
}

// Alive records the processes that are alive. Call it every second, so that every slot records the
// processes that lived in it.
func (c *Collector) Alive(now Second, all []Process) {
	c.slot(now.Slot())
	for _, p := range all {
		c.markAlive(now.Slot(), p)
	}
}

// markAlive records that a process lived in a slot, unless it stopped before: its connections may end a
// little later than it does.
func (c *Collector) markAlive(b Slot, p Process) {
	if last, ended := c.ended[p]; ended && last < b || c.recent.stopped(p, b) {
		return
	}
	c.slot(b).alive[p] = true
}

// Add adds uploads of a process, oldest slot first. It returns how many of the first uploads are already
// in the log, or too late to be added, so that the process need not repeat them. It skips slots that
// have not begun: the clock of the process is ahead.
func (c *Collector) Add(now Second, all []Upload) (done int) {
	for i := range all {
		t := &all[i]
		switch {
		case c.recent.Has(t.From, t.Slot):
			if done == i {
				done++
			}
		case t.Slot <= now.Slot():
			c.slot(t.Slot).uploads[t.From] = t
			for _, p := range t.Seen { // others saw them before this leader could
				for b := t.Slot; b <= max(c.began, t.Slot); b++ {
					c.markAlive(b, p)
				}
			}
			if t.Last {
				c.ended[t.From] = t.Slot
				for b, g := range c.slots {
					if b > t.Slot {
						delete(g.alive, t.From)
					}
				}
			}
		}
	}
	return done
}

// Lines returns the lines to be written now, oldest slot first: those of slots that all live processes
// have uploaded, or whose Patience is over, and for the current slot the uploads of processes that stop.
// It does not return a line again until Written reports its outcome.
func (c *Collector) Lines(now Second) []Line {
	var out []Line
	maps.DeleteFunc(c.ended, func(_ Process, last Slot) bool { return last < now.Slot()-MaxBehind })
	for _, b := range slices.Sorted(maps.Keys(c.slots)) {
		g := c.slots[b]
		if len(g.inFlight) > 0 {
			continue
		}
		// The log may have received some in an earlier line.
		maps.DeleteFunc(g.uploads, func(p Process, _ *Upload) bool { return c.recent.Has(p, b) })
		if b.End() > now {
			if len(g.uploads) > 0 {
				out = append(out, g.line(b))
			}
			continue
		}
		complete := c.complete(b, g)
		switch {
		case b < now.Slot()-MaxBehind, complete && len(g.uploads) == 0:
			delete(c.slots, b) // Add recreates it for late uploads
		case len(g.uploads) > 0 && (complete || b.End()+Patience <= now || c.hasLeaver(g)):
			out = append(out, g.line(b))
		}
	}
	return out
}

// hasLeaver reports whether a process that uploaded the slot is stopping: it waits for the log.
func (c *Collector) hasLeaver(g *openSlot) bool {
	for p := range g.uploads {
		if _, ended := c.ended[p]; ended {
			return true
		}
	}
	return false
}

// complete reports whether all processes that were alive in the slot have uploaded it.
func (c *Collector) complete(b Slot, g *openSlot) bool {
	for p := range g.alive {
		if _, ok := g.uploads[p]; !ok && !c.recent.Has(p, b) {
			return false
		}
	}
	return true
}

func (g *openSlot) line(b Slot) Line {
	l := Line{Slot: b, Expected: sorted(maps.Keys(g.alive)), From: sorted(maps.Keys(g.uploads))}
	sums := map[quota.LimitName]*Vector{}
	for _, p := range l.From {
		if g.uploads[p].Last {
			l.Ended = append(l.Ended, p)
		}
		for i := range g.uploads[p].Slices {
			s := &g.uploads[p].Slices[i]
			if sums[s.Limit] == nil {
				sums[s.Limit] = &Vector{}
			}
			sums[s.Limit].Add(&s.Counts)
		}
	}
	for _, limit := range slices.SortedFunc(maps.Keys(sums), quota.LimitName.Compare) {
		l.Slices = append(l.Slices, Slice{limit, *sums[limit]})
	}
	l.Slices = capLimits(l.Slices)
	g.inFlight = l.From
	return l
}

func sorted(all func(func(Process) bool)) []Process { return slices.SortedFunc(all, compareProcesses) }

// Written records the outcome of a slot's line: either it is in the log and applied here, or it is not
// and will be made again.
func (c *Collector) Written(b Slot, ok bool) {
	g := c.slots[b]
	if g == nil {
		return
	}
	if ok {
		for _, p := range g.inFlight {
			delete(g.uploads, p)
		}
	}
	g.inFlight = nil
}
