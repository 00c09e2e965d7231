package clock

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
)

// Bound is the maximum difference between the wall clocks of two nodes before an operator must
// act and before a clock counts as wrong.
const Bound = leader.MaxOffset

// Peer records an answer of another node with its wall clock, which took that long to arrive since it was asked for,
// and compares the clocks.
func (c *Clock) Peer(id quota.NodeID, wall quota.Time, trip time.Duration) {
	c.peersMu.Lock()
	now := c.Mono()
	s := sample{wall.Add(-now).Add(trip / 2), trip, now}
	if was, ok := c.peers[id]; !ok || trip <= was.trip || now-was.at >= keepSample || s.contradicts(&was) {
		c.peers[id] = s
	}
	c.peersMu.Unlock()
	c.compare()
}

// sample is a reading of another node's wall clock. It is right to within half of the trip: the answer may have
// been sent at any moment of it.
type sample struct {
	began quota.Time // its time when this process started
	trip  time.Duration
	at    time.Duration // Mono at its arrival
}

// keepSample is how long an answer is used although later ones took longer.
const keepSample = 10 * time.Second

// contradicts reports whether one of the clocks must have been set between two samples.
func (s *sample) contradicts(o *sample) bool {
	return time.Duration(s.began-o.began).Abs() > (s.trip+o.trip)/2
}

// Offsets returns how far the wall clock of each connected peer is ahead of this node's wall
// clock. It reflects a change of this node's wall clock at once.
func (c *Clock) Offsets() map[quota.NodeID]time.Duration {
	out := map[quota.NodeID]time.Duration{}
	c.eachOffset(func(id quota.NodeID, off, _ time.Duration) { out[id] = off })
	return out
}

// eachOffset calls f with the offset of each connected peer, and with the most by which it may be wrong.
func (c *Clock) eachOffset(f func(id quota.NodeID, off, within time.Duration)) {
	began := quota.Time(c.Wall().UnixNano()).Add(-c.Mono())
	up := c.cfg.Up()
	c.peersMu.Lock()
	defer c.peersMu.Unlock()
	for _, id := range up {
		if s, ok := c.peers[id]; ok {
			f(id, time.Duration(s.began-began), s.trip/2)
		}
	}
}

// Correction returns how far the wall clock is behind those of most nodes; 0 if they agree.
func (c *Clock) Correction() time.Duration { return time.Duration(c.correction.Load()) }

// Correct adds by to the wall clock from now on; the clock is steered there gradually. It logs
// when a correction begins or ends.
func (c *Clock) Correct(by time.Duration) {
	was := time.Duration(c.correction.Swap(int64(by)))
	if (was == 0) == (by == 0) {
		return
	}
	if by != 0 {
		c.cfg.Log.Warn("the wall clock is wrong: most nodes agree on another time, which this node uses", "ahead", -by)
	} else {
		c.cfg.Log.Info("the wall clock is right again")
	}
}

// compare corrects the clock if most members agree on another time, and clears the correction if
// most agree with this node. It returns false, and keeps the correction, if there is no such
// majority.
func (c *Clock) compare() bool {
	c.comparing.Lock()
	defer c.comparing.Unlock()
	all := []time.Duration{0}
	c.eachOffset(func(_ quota.NodeID, off, within time.Duration) { // what is certain of it
		all = append(all, off-min(max(off, -within), within))
	})
	slices.Sort(all)
	most := c.cfg.Members()/2 + 1
	var found []time.Duration
	for i := 0; i+most <= len(all); i++ { // find the majority with the smallest spread
		if part := all[i : i+most]; len(found) == 0 || part[most-1]-part[0] < found[most-1]-found[0] {
			found = part
		}
	}
	agreed := len(found) > 0 && found[most-1]-found[0] <= Bound
	c.agreed.Store(agreed)
	if !agreed {
		return false
	}
	correction := time.Duration(0)
	if found[0] > Bound/2 || found[most-1] < -Bound/2 { // this node is outside the majority
		correction = found[most/2]
	}
	c.Correct(correction)
	return true
}

// Run periodically compares the clock with those of other nodes and steers it, until ctx ends.
func (c *Clock) Run(ctx context.Context) {
	tick := time.NewTicker(steerEvery * 3 / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		c.compare()
		c.steer()
	}
}

// Agreed reports whether most members agreed on the time at the last comparison and this node's
// clock is within Bound of it.
func (c *Clock) Agreed() bool { return c.agreed.Load() && c.off().Abs() <= Bound }

// Earliest returns the clock's time or, unless Agreed, the earliest of it and the wall clocks of the
// connected nodes. By then, a moment has passed if any of their clocks is right.
func (c *Clock) Earliest() quota.Time {
	c.compare()
	at := c.Now()
	if c.Agreed() {
		return at
	}
	wall := quota.Time(c.Wall().UnixNano())
	for _, ahead := range c.Offsets() {
		at = min(at, wall.Add(ahead))
	}
	return at
}

// TooFarOff compares the clocks and reports whether this node's clock is too far off to lead,
// because windows follow the leader's clock. Only a new process can set its clock at once.
func (c *Clock) TooFarOff() bool {
	c.compare()
	return c.off().Abs() > Bound
}

// startWait is how long Start waits for the clocks of other nodes. Running peers answer much
// sooner; the first node of a cluster waits for the full time.
const startWait = 200 * time.Millisecond

// Start sets the clock if it is wrong, before anything in this process uses it, and reports
// whether it did. Later the clock can only be steered, by an hour in more than eight days, and
// other nodes lead: see TooFarOff.
func (c *Clock) Start() (set bool) {
	end := time.Now().Add(startWait)
	for ; !c.compare() && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	if c.Correction() == 0 {
		return false
	}
	c.Set()
	return true
}

// Faults returns what is wrong with this node's clocks, as texts for operators.
func (c *Clock) Faults() (out []string) {
	agreed := c.compare()
	if off := c.off(); off.Abs() > Bound {
		out = append(out, fmt.Sprintf("this process's clock is %s the right time: the difference shrinks by %v a second, and other nodes lead if they can; to correct it immediately, restart this node",
			aheadOf(off), steerEvery*maxSteer/1_000_000))
	}
	if by := c.Correction(); by != 0 {
		return append(out, fmt.Sprintf("the wall clock is %s those of most nodes, which this node follows: set it, and keep it correct with NTP", aheadOf(-by)))
	}
	if agreed {
		return out
	}
	offsets := c.Offsets()
	for _, id := range slices.Sorted(maps.Keys(offsets)) {
		if d := offsets[id]; d.Abs() > Bound {
			out = append(out, fmt.Sprintf("the wall clock is %s that of %s: find out which one is wrong, and set it", aheadOf(-d), id))
		}
	}
	return out
}

func aheadOf(d time.Duration) string {
	if d < 0 {
		return fmt.Sprintf("%v behind", (-d).Round(time.Millisecond))
	}
	return fmt.Sprintf("%v ahead of", d.Round(time.Millisecond))
}
