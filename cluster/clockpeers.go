package cluster

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
)

// clockBound is the most that the wall clocks of two nodes may differ before somebody has to see
// to it, and before a clock counts as wrong.
const clockBound = leader.MaxOffset

// wallOf notes what a peer's wall clock says, as of its beacon, and compares. The way of the beacon
// took half a round trip.
func (n *Node) wallOf(from quota.NodeID, nanos int64) {
	began := quota.Time(nanos).Add(-n.clock.mono())
	n.routes.peer(from, func(p *peer) { p.began, p.timed = began.Add(p.trip/2), true })
	n.compareClocks()
}

// clockOffsets returns how far the wall clocks of connected peers are ahead of this node's, also of one
// that was set a moment ago.
func (n *Node) clockOffsets() map[quota.NodeID]time.Duration {
	began := quota.Time(n.clock.wall().UnixNano()).Add(-n.clock.mono())
	out := map[quota.NodeID]time.Duration{}
	for _, id := range n.routes.upNodes() {
		n.routes.peer(id, func(p *peer) {
			if p.timed {
				out[id] = time.Duration(p.began - began)
			}
		})
	}
	return out
}

// compareClocks corrects the clock if most members agree on another time, and by nothing if most
// agree on this one. It returns false if there is no such majority: then the correction stays.
func (n *Node) compareClocks() bool {
	n.comparing.Lock()
	defer n.comparing.Unlock()
	all := []time.Duration{0}
	for _, d := range n.clockOffsets() {
		all = append(all, d)
	}
	slices.Sort(all)
	most := len(n.members.View().IDs)/2 + 1
	var found []time.Duration
	for i := 0; i+most <= len(all); i++ { // the majority whose clocks are closest together
		if part := all[i : i+most]; len(found) == 0 || part[most-1]-part[0] < found[most-1]-found[0] {
			found = part
		}
	}
	agreed := len(found) > 0 && found[most-1]-found[0] <= clockBound
	n.agreed.Store(agreed)
	if !agreed {
		return false
	}
	correction := time.Duration(0)
	if found[0] > clockBound/2 || found[most-1] < -clockBound/2 { // this node is not one of them
		correction = found[most/2]
	}
	was := time.Duration(n.clock.correction.Swap(int64(correction)))
	if (was == 0) != (correction == 0) {
		if correction != 0 {
			n.log.Warn("the wall clock is wrong: most nodes agree on another time, and this node goes by theirs", "ahead", -correction)
		} else {
			n.log.Info("the wall clock is right again")
		}
	}
	return true
}

// clockLoop compares the clock with those of others, and steers it.
func (n *Node) clockLoop() {
	defer n.done.Done()
	tick := time.NewTicker(steerEvery * 3 / 4)
	defer tick.Stop()
	for {
		select {
		case <-n.stop:
			return
		case <-tick.C:
		}
		n.compareClocks()
		n.clock.steer()
		n.expire(n.clock.now())
	}
}

// clockAgreed reports whether most members agreed on the time at the last look, and this node's clock
// shows it.
func (n *Node) clockAgreed() bool { return n.agreed.Load() && n.clock.off().Abs() <= clockBound }

// clockOff reports whether this node's clock is too far off to lead: windows go by the leader's. Only a
// new process can set its clock at once.
func (n *Node) clockOff() bool {
	n.compareClocks()
	return n.clock.off().Abs() > clockBound
}

// clockWait is how long a start waits for what the clocks of others say. Peers that run are here
// much sooner; the first node of a cluster waits in vain.
const clockWait = 100 * time.Millisecond

// setClock sets a clock that is wrong at the start, before anything in this process goes by it. Later it
// can only be steered, an hour in more than eight days, and others lead: see clockOff.
func (n *Node) setClock() {
	end := time.Now().Add(clockWait)
	for ; !n.compareClocks() && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	if n.clock.correction.Load() == 0 {
		return
	}
	n.clock.set()
	n.agg.SetClock(n.clock.now())
	n.Recorder.ClockSet()
}

// clockFaults says what is wrong with this node's wall clock.
func (n *Node) clockFaults() (out []string) {
	agreed := n.compareClocks()
	if off := n.clock.off(); off.Abs() > clockBound {
		out = append(out, fmt.Sprintf("this process's clock is %s the right time: it comes closer by %v in a second, and other nodes lead if they can; to set it at once, restart this node",
			aheadOf(off), steerEvery*maxSteer/1_000_000))
	}
	if c := time.Duration(n.clock.correction.Load()); c != 0 {
		return append(out, fmt.Sprintf("the wall clock is %s those of most nodes, which this node goes by: set it, and keep it right with NTP", aheadOf(-c)))
	}
	if agreed {
		return out
	}
	offsets := n.clockOffsets()
	for _, id := range slices.Sorted(maps.Keys(offsets)) {
		if d := offsets[id]; d.Abs() > clockBound {
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
