package cluster

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// routes is who leads what, as beacons and own elections tell, and how the
// peers are: for status and for calls. The aggregator has its own copy.
type routes struct {
	mu     sync.Mutex
	ranges []route
	peers  map[quota.NodeID]*peer
	meta   route

	metaVersion uint64    // of the limits, as the meta leader says
	synced      time.Time // when this node was first seen to have the meta leader's state
	ledOnce     bool      // all ranges and the meta group have had leaders at one moment, since the start
	metaMembers uint64    // revision of the membership, as the meta leader says
	metaTold    bool      // it has said so in this term
}

type route struct {
	leader quota.NodeID
	term   quota.Term
	left   time.Time // when it was last seen to go from having a leader to none
}

// leave notes that nobody leads, from now on if somebody did, and reports whether that is news.
func (r *route) leave() bool {
	if r.leader == "" {
		return false
	}
	r.leader, r.left = "", time.Now()
	return true
}

// leaderGrace is how long a range that had a leader may be without until the cluster is not
// ready: a handover takes some milliseconds and an election a second or two, and all see them.
const leaderGrace = 3 * time.Second

// missing says whether the range has had no leader for longer than a change of leaders takes.
func (r *route) missing() bool {
	return r.leader == "" && time.Since(r.left) >= leaderGrace
}

type peer struct {
	up      bool
	refused bool   // probably its process has ended
	dead    bool   // certainly
	parting bool   // it has said that it stops
	version uint64 // of the limits in force there
	// policies is how many changes of policy configs it has applied.
	policies uint64
	// security is how many changes of who may do what it has applied.
	security uint64
	trip     time.Duration
	// members is the revision of the membership that it has applied.
	members uint64
	since   time.Time // of up, or of not being so
	clients uint32    // that are attached to it, as it says
}

// took notes how long a call took. Some wait for more than the way: a shorter one
// counts at once, longer ones by and by.
func (p *peer) took(d time.Duration) {
	if d = max(d, time.Microsecond); p.trip == 0 || d < p.trip {
		p.trip = d
		return
	}
	p.trip += (d - p.trip) / 16
}

// worstTrip is the longest round trip to a peer that is connected.
func (t *routes) worstTrip() (worst time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.peers {
		if p.up {
			worst = max(worst, p.trip)
		}
	}
	return worst
}

func (t *routes) trip(id quota.NodeID) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.peers[id]; p != nil {
		return p.trip
	}
	return 0
}

func (t *routes) init(ranges int) {
	t.ranges = make([]route, ranges)
	t.peers = map[quota.NodeID]*peer{}
}

// setPeers says who the others are.
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

// set notes a leader and reports whether that is news.
func (t *routes) set(r quota.RangeID, id quota.NodeID, term quota.Term) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	rt := &t.ranges[r]
	if term < rt.term || rt.leader == id && rt.term == term {
		return false
	}
	rt.leader, rt.term = id, term
	t.noteLed()
	return true
}

// noteLed notes whether everything has a leader now.
func (t *routes) noteLed() {
	t.ledOnce = t.ledOnce || t.meta.leader != "" && !slices.ContainsFunc(t.ranges, func(r route) bool { return r.leader == "" })
}

// ledWait is how long a node that has the limits waits for leaders of all ranges until it is ready. One range without
// a majority does not keep it from deciding all others.
const ledWait = 10 * time.Second

// wasLed reports whether this node has seen leaders of everything since it started, or has waited for them long enough.
func (t *routes) wasLed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ledOnce || !t.synced.IsZero() && time.Since(t.synced) >= ledWait
}

// clear notes that id does not lead the range any more.
func (t *routes) clear(r quota.RangeID, id quota.NodeID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ranges[r].leader == id {
		t.ranges[r].leave()
	}
}

// unknown notes that this node's replica of the range has lost its leader,
// unless that is this node. The leader's next beacon corrects an error. It reports whether
// that is news.
func (t *routes) unknown(r quota.RangeID, self quota.NodeID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ranges[r].leader != self && t.ranges[r].leave()
}

// keepOnly clears the ranges of id that are not in leads, and returns them.
func (t *routes) keepOnly(id quota.NodeID, leads map[quota.RangeID]bool) (lost []quota.RangeID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for r := range t.ranges {
		if t.ranges[r].leader == id && !leads[quota.RangeID(r)] && t.ranges[r].leave() {
			lost = append(lost, quota.RangeID(r))
		}
	}
	return lost
}

// setMeta notes the leader of the meta group and its version of the limits.
func (t *routes) setMeta(id quota.NodeID, term quota.Term, version, members uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if term >= t.meta.term {
		t.meta.leader, t.meta.term, t.metaVersion = id, term, version
		t.metaMembers, t.metaTold = members, true
		t.noteLed()
	}
}

// hasMembers reports whether a membership of that revision is as new as that of
// the meta leader, as it says itself.
func (t *routes) hasMembers(revision uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.meta.leader != "" && t.metaTold && revision >= t.metaMembers
}

// hasMeta reports whether this node, whose limits have that version, has had
// the meta leader's state since it started. Until then its own may be that of
// long ago: it may have been down, and Raft tells it only now what is committed.
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

// peer changes what is known of a peer.
func (t *routes) peer(id quota.NodeID, f func(p *peer)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.peers[id]; p != nil {
		f(p)
	}
}

// lost forgets everything that a dead node led, and returns the ranges.
func (t *routes) lost(id quota.NodeID) []quota.RangeID {
	t.lostMeta(id)
	return t.keepOnly(id, nil)
}

// lostMeta notes that id does not lead the meta group any more.
func (t *routes) lostMeta(id quota.NodeID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.meta.leader == id {
		t.meta.leave()
	}
}

// silences is how long each peer that is not connected has not been.
func (t *routes) silences() map[quota.NodeID]time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[quota.NodeID]time.Duration{}
	for id, p := range t.peers {
		if !p.up {
			out[id] = time.Since(p.since)
		}
	}
	return out
}

func (t *routes) deadNodes() []quota.NodeID {
	return t.where(func(p *peer) bool { return p.dead })
}

func (t *routes) refusedNodes() []quota.NodeID {
	return t.where(func(p *peer) bool { return p.refused })
}

func (t *routes) upNodes() []quota.NodeID {
	return t.where(func(p *peer) bool { return p.up })
}

func (t *routes) allNodes() []quota.NodeID {
	return t.where(func(*peer) bool { return true })
}

func (t *routes) where(match func(*peer) bool) []quota.NodeID {
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

// leader returns who leads a range as far as is known.
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
	return p != nil && p.up
}
