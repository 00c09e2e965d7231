package cluster

import (
	"maps"
	"slices"
	"sync"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/internal/quota"
)

// routes holds the leaders, learned from beacons and this node's own elections, and the state of
// the peers. Status and calls use it; the aggregator has its own copy.
type routes struct {
	mu     sync.Mutex
	ranges []route
	peers  map[quota.NodeID]*peer
	meta   route

	metaVersion uint64      // the meta leader's version of the limits
	synced      time.Time   // when this node first had the meta leader's state
	ledOnce     bool        // since the start, all ranges and the meta group had leaders at the same time
	metaMembers uint64      // the meta leader's revision of the membership
	changed     func()      // counts a change of a range's leader; nil in tests
	answered    func() bool // whether a leader of every range has answered this node's member; nil in tests
}

type route struct {
	leader quota.NodeID
	term   quota.Term
	left   time.Time // when the group last lost its leader
}

// clearLeader clears the leader, stamps the time of the loss, and reports whether there was a leader.
func (r *route) clearLeader() bool {
	if r.leader == "" {
		return false
	}
	r.leader, r.left = "", time.Now()
	return true
}

// leaderGrace is how long a range may be without a leader before the cluster counts as not
// ready. A handover takes some milliseconds and an election a second or two, and all nodes see both.
const leaderGrace = 3 * time.Second

// lacksLeader reports whether the group has had no leader for at least leaderGrace.
func (r *route) lacksLeader() bool {
	return r.leader == "" && time.Since(r.left) >= leaderGrace
}

type peer struct {
	state   transport.Event // the last one; 0 before the first
	since   time.Time       // when it last connected or was lost
	parting bool            // it has announced that it stops
	rtt     time.Duration
	beacon  *peerv1.Beacon // the last one; nil before the first

	clockAsked bool // its answer is awaited
	clockKnown bool // it has answered since it connected
}

func (p *peer) up() bool { return p.state == transport.Up }

// observeRTT updates the round trip with the duration of a call. Some calls wait for more than the
// network, so a shorter duration replaces the estimate and a longer one moves it by 1/16.
func (p *peer) observeRTT(d time.Duration) {
	if d = max(d, time.Microsecond); p.rtt == 0 || d < p.rtt {
		p.rtt = d
		return
	}
	p.rtt += (d - p.rtt) / 16
}

// maxRTT returns the longest round trip to a connected peer.
func (t *routes) maxRTT() (worst time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.peers {
		if p.up() {
			worst = max(worst, p.rtt)
		}
	}
	return worst
}

func (t *routes) rtt(id quota.NodeID) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.peers[id]; p != nil {
		return p.rtt
	}
	return 0
}

func (t *routes) init(ranges int) {
	t.ranges = make([]route, ranges)
	t.peers = map[quota.NodeID]*peer{}
}

// setPeers replaces the set of peers. It keeps the state of those that remain.
func (t *routes) setPeers(ids map[quota.NodeID]string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.peers, func(id quota.NodeID, _ *peer) bool { return ids[id] == "" })
	for id := range ids {
		if t.peers[id] == nil {
			t.peers[id] = &peer{since: time.Now()}
		}
	}
}

// set records the leader of a range and reports whether anything changed. It ignores older terms.
func (t *routes) set(r quota.RangeID, id quota.NodeID, term quota.Term) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	rt := &t.ranges[r]
	if term < rt.term || rt.leader == id && rt.term == term {
		return false
	}
	if rt.term > 0 && t.changed != nil {
		t.changed()
	}
	rt.leader, rt.term = id, term
	t.noteLed()
	return true
}

// noteLed sets ledOnce if all ranges and the meta group have leaders. t.mu must be held.
func (t *routes) noteLed() {
	t.ledOnce = t.ledOnce || t.meta.leader != "" && !slices.ContainsFunc(t.ranges, func(r route) bool { return r.leader == "" })
}

// ledWait is how long a node that has the limits waits for leaders of all ranges before it becomes
// ready without them. One range without a majority must not keep it from deciding the others.
const ledWait = 10 * time.Second

// wasLed reports whether this node has seen leaders of all groups since it started, which have
// answered it, or has waited for them for ledWait. With its first answer, a leader says which keys are used up.
func (t *routes) wasLed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ledOnce && (t.answered == nil || t.answered()) || !t.synced.IsZero() && time.Since(t.synced) >= ledWait
}

// clear removes id as leader of the range.
func (t *routes) clear(r quota.RangeID, id quota.NodeID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ranges[r].leader == id {
		t.ranges[r].clearLeader()
	}
}

// forgetLeader clears the leader of a range whose replica here has lost its leader, unless this node
// leads, and reports whether anything changed. The leader's next beacon corrects a mistake.
func (t *routes) forgetLeader(r quota.RangeID, self quota.NodeID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ranges[r].leader != self && t.ranges[r].clearLeader()
}

// retainLeads clears id as leader of every range that is not in leads, and returns those ranges.
func (t *routes) retainLeads(id quota.NodeID, leads map[quota.RangeID]bool) (lost []quota.RangeID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for r := range t.ranges {
		if t.ranges[r].leader == id && !leads[quota.RangeID(r)] && t.ranges[r].clearLeader() {
			lost = append(lost, quota.RangeID(r))
		}
	}
	return lost
}

// setMeta records the leader of the meta group, its version of the limits and its revision of the
// membership. It ignores older terms.
func (t *routes) setMeta(id quota.NodeID, term quota.Term, version, members uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if term >= t.meta.term {
		t.meta.leader, t.meta.term, t.metaVersion, t.metaMembers = id, term, version, members
		t.noteLed()
	}
}

// hasMembers reports whether a membership of that revision is at least as new as the one that
// the meta leader reported.
func (t *routes) hasMembers(revision uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.meta.leader != "" && revision >= t.metaMembers
}

// hasMeta reports whether this node, whose limits have that version, has caught up with
// the meta leader since it started. Until then its state may be old: the node may have been
// down, and Raft has yet to deliver what was committed during that time.
func (t *routes) hasMeta(version uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.synced.IsZero() && t.meta.leader != "" && version >= t.metaVersion {
		t.synced = time.Now()
	}
	return !t.synced.IsZero()
}

func (t *routes) metaLeader() quota.NodeID {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.meta.leader
}

// peer calls f with the peer's state, if the peer is known. f runs under t.mu.
func (t *routes) peer(id quota.NodeID, f func(p *peer)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.peers[id]; p != nil {
		f(p)
	}
}

// clearNode clears id as leader of every group, and returns the ranges that it led.
func (t *routes) clearNode(id quota.NodeID) []quota.RangeID {
	t.lostMeta(id)
	return t.retainLeads(id, nil)
}

// lostMeta removes id as leader of the meta group.
func (t *routes) lostMeta(id quota.NodeID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.meta.leader == id {
		t.meta.clearLeader()
	}
}

// silences returns how long each disconnected peer has been disconnected.
func (t *routes) silences() map[quota.NodeID]time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[quota.NodeID]time.Duration{}
	for id, p := range t.peers {
		if !p.up() {
			out[id] = time.Since(p.since)
		}
	}
	return out
}

// inState returns the peers in a state.
func (t *routes) inState(state transport.Event) []quota.NodeID {
	return t.matching(func(p *peer) bool { return p.state == state })
}

func (t *routes) upNodes() []quota.NodeID {
	return t.inState(transport.Up)
}

func (t *routes) allNodes() []quota.NodeID {
	return t.matching(func(*peer) bool { return true })
}

func (t *routes) matching(match func(*peer) bool) []quota.NodeID {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []quota.NodeID
	for id, p := range t.peers {
		if match(p) {
			out = append(out, id)
		}
	}
	return out
}

// snapshot returns a copy of the ranges and the meta group.
func (t *routes) snapshot() ([]route, route) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]route(nil), t.ranges...), t.meta
}

// leader returns the last known leader of a range; "" if unknown.
func (t *routes) leader(r quota.RangeID) quota.NodeID {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ranges[r].leader
}

// up reports whether a peer is connected.
func (t *routes) up(id quota.NodeID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.peers[id]
	return p != nil && p.up()
}
