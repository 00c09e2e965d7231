package cluster

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/cluster/control"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/cluster/peercall"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/snapshotio"
	"github.com/quorate/quorate/shard"
)

// What the mover does at a time.
const (
	moveEvery = 200 * time.Millisecond // how often it looks
	maxMoves  = 4                      // groups that change at a time
	stepLimit = 10 * time.Second       // for one step
	lookAgain = 15 * time.Second       // at groups that were as wanted
)

// mover makes the groups what is wanted of them, while this node leads the meta
// group. What is wanted is in the meta group; what is, is in each group's Raft
// configuration: so it holds nothing that a crash could lose, and does nothing
// twice that it should not. Every node has one; those of others do nothing.
type mover struct {
	node  *Node
	slots chan struct{}

	mu    sync.Mutex
	doing map[uint32]shard.Step // step that is under way or waits, by group
	busy  map[uint32]bool
	done  map[uint32]settled   // groups that were as wanted
	tried map[uint32]time.Time // when a group could not go on, or was as wanted

	read   *membership.Table // what is wanted of the groups is of this one; of move alone
	meta   shard.Placement
	ranges []shard.Placement

	freed   chan struct{} // a slot is free
	planned atomic.Uint64 // revision of the membership whose plan changed nothing
}

// settled is when a group was as wanted, and what that was.
type settled struct {
	at       time.Time
	revision uint64 // of the membership
	want     shard.Placement
}

// still says whether the same is wanted now: of the meta group, whose members are
// all, the whole membership.
func (s settled) still(t *membership.Table, g uint32, want shard.Placement) bool {
	if g == metaGroup || s.revision == t.Revision() {
		return s.revision == t.Revision()
	}
	return slices.Equal(s.want.Voters, want.Voters) && slices.Equal(s.want.Removed, want.Removed)
}

func (n *Node) mover() {
	defer n.done.Done()
	ctx, cancel := context.WithCancel(context.Background())
	defer n.moves.wait()
	defer cancel()
	tick := time.NewTicker(moveEvery)
	defer tick.Stop()
	for {
		select {
		case <-n.stop:
			return
		case <-n.moves.freed:
			if n.leadsMeta() {
				n.moves.move(ctx)
			}
			continue
		case <-tick.C:
		}
		n.introduce(ctx)
		if !n.leadsMeta() {
			n.moves.forget()
			continue
		}
		if err := n.tendMembers(ctx); err != nil && ctx.Err() == nil {
			n.log.Debug("membership not reconciled", "err", err)
		}
		n.moves.move(ctx)
	}
}

func newMover(n *Node) *mover {
	return &mover{node: n, slots: make(chan struct{}, maxMoves), doing: map[uint32]shard.Step{}, busy: map[uint32]bool{}, done: map[uint32]settled{}, tried: map[uint32]time.Time{}, freed: make(chan struct{}, 1)}
}

// wait waits for the steps that are under way.
func (m *mover) wait() {
	for range maxMoves {
		m.slots <- struct{}{}
	}
}

// forget is for whoever does not lead any more.
func (m *mover) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.doing)
	clear(m.done)
}

// unsettled says what is done with a group, or is to be done; nothing if it was seen to be
// as is wanted now.
func (m *mover) unsettled(t *membership.Table, g uint32, want shard.Placement) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s, ok := m.doing[g]; ok {
		return s.String()
	}
	if last, ok := m.done[g]; len(want.Voters) == 0 || ok && last.still(t, g, want) {
		return ""
	}
	return "wait: for its turn"
}

func (n *Node) leadsMeta() bool {
	g := n.host.Group(metaGroup)
	if g == nil {
		return false
	}
	_, _, serving := g.Leader()
	return serving
}

// tendMembers keeps the membership: makes the first one, gives up nodes that are
// dead for long, plans, and takes out who holds nothing more. One change at a time.
func (n *Node) tendMembers(ctx context.Context) error {
	t := n.meta.Members.Load()
	if !t.Seeded() {
		return n.seed(ctx, t)
	}
	raise := func(t *membership.Table) *raftlogv1.ChangeMembers { return raised(t, membership.Level) }
	for _, next := range []func(*membership.Table) *raftlogv1.ChangeMembers{raise, n.buried, n.planned, n.dropped} {
		if c := next(t); c != nil {
			_, err := n.commitMembers(ctx, t, c)
			return err
		}
	}
	return nil
}

// commitMembers proposes a change that was made from t. The error of the change
// itself is an *membership.Error, or membership.ErrStale.
func (n *Node) commitMembers(ctx context.Context, t *membership.Table, c *raftlogv1.ChangeMembers) (*membership.Table, error) {
	c.Revision, c.AtUnixNanos = t.Revision(), int64(n.clock.now())
	res, err := n.ApplyMeta(ctx, snapshotio.Encode(&raftlogv1.MetaCommand{Change: &raftlogv1.MetaCommand_ChangeMembers{ChangeMembers: c}}))
	if err != nil {
		return nil, err
	}
	r, ok := res.(control.MembersResult)
	if !ok {
		return nil, errors.New("membership: the log answered something else")
	}
	return r.Table, r.Err
}

// seed makes the first membership out of the settings, once every node is connected and of
// this version's feature level or higher: a node that does not understand an entry of the log
// would have another state than the rest.
func (n *Node) seed(ctx context.Context, t *membership.Table) error {
	v := n.view.Load()
	seed := &raftlogv1.Membership{Level: membership.Level, Replicas: uint32(n.cfg.Replicas)}
	for _, id := range v.ids {
		if id != n.cfg.Self && (!n.routes.up(id) || n.net.LevelOf(id) < membership.Level) {
			return nil
		}
		m := &membership.Member{ID: id, Peer: v.nodes[id], State: membership.Active, Level: membership.Level, First: n.firstOf(id)}
		seed.Members = append(seed.Members, m.Encode())
	}
	if a := n.cfg.Authority; a != nil {
		seed.Authority = &raftlogv1.StoredAuthority{Certificate: a.CertPEM, Key: a.KeyPEM}
	}
	seed.Placements = append(seed.Placements, membership.EncodePlacement(metaGroup, v.meta))
	for r, p := range v.ranges {
		seed.Placements = append(seed.Placements, membership.EncodePlacement(group(quota.RangeID(r)), p))
	}
	_, err := n.commitMembers(ctx, t, &raftlogv1.ChangeMembers{Change: &raftlogv1.ChangeMembers_Seed{Seed: seed}})
	return err
}

// buried gives up a member that has been silent for DeadAfter, if what remains is
// enough to hold every replica that is wanted, and a majority of all is here: a
// leader that is cut off buries nobody.
func (n *Node) buried(t *membership.Table) *raftlogv1.ChangeMembers {
	after := cmp.Or(n.cfg.DeadAfter, DefaultDeadAfter)
	if after < 0 {
		return nil
	}
	silent := n.routes.silentFor(after)
	usable := 0
	for _, id := range t.IDs() {
		if !slices.Contains(silent, id) && t.Member(id).Node().State == shard.Active {
			usable++
		}
	}
	if usable < t.Replicas() || 2*usable <= len(t.IDs()) {
		return nil
	}
	for _, id := range silent {
		if m := t.Member(id); m != nil && !m.Dead {
			dead := *m
			dead.Dead = true // not Leaving: a range is never made smaller by itself
			n.log.Warn("a dead node is given up: its replicas move to others", "node", id, "silent_for", after)
			return putMember(&dead)
		}
	}
	return nil
}

func putMember(m *membership.Member) *raftlogv1.ChangeMembers {
	return &raftlogv1.ChangeMembers{Change: &raftlogv1.ChangeMembers_Put{Put: m.Encode()}}
}

// planned puts down what is wanted of the groups, where that has changed.
func (n *Node) planned(t *membership.Table) *raftlogv1.ChangeMembers {
	if n.moves.planned.Load() == t.Revision() {
		return nil
	}
	list, err := n.plan(t, t.Nodes())
	if err != nil {
		n.log.Error("no placement", "err", err)
		return nil
	}
	if len(list) == 0 {
		n.moves.planned.Store(t.Revision())
		return nil
	}
	n.tracePlan(t.Revision(), len(list))
	return &raftlogv1.ChangeMembers{Change: &raftlogv1.ChangeMembers_Place{Place: &raftlogv1.PutPlacements{Placements: list}}}
}

// plan returns the placements that are to change for these nodes.
func (n *Node) plan(t *membership.Table, nodes []shard.Node) ([]*raftlogv1.StoredPlacement, error) {
	meta, before := t.Placements(n.cfg.Ranges)
	wanted, err := shard.Place(nodes, n.cfg.Ranges, t.Replicas(), before)
	if err != nil {
		return nil, err
	}
	var out []*raftlogv1.StoredPlacement
	change := func(g uint32, was, is shard.Placement) {
		if !slices.Equal(was.Voters, is.Voters) || !slices.Equal(was.Removed, is.Removed) {
			out = append(out, membership.EncodePlacement(g, is))
		}
	}
	voters := shard.PlaceMeta(nodes, metaVoters, meta.Voters)
	change(metaGroup, meta, shard.Placement{Voters: voters})
	for r := range wanted {
		change(group(quota.RangeID(r)), before[r], wanted[r])
	}
	return out, nil
}

// dropped takes a member out that leaves and holds nothing more. Who still answers
// is told first: once it is no member, nobody talks to it.
func (n *Node) dropped(t *membership.Table) *raftlogv1.ChangeMembers {
	for _, id := range t.IDs() {
		if id != n.cfg.Self && leaves(t, id) && !n.inMeta(id) {
			n.bidFarewell(id)
			return &raftlogv1.ChangeMembers{Change: &raftlogv1.ChangeMembers_Drop{Drop: &raftlogv1.DropMember{Id: string(id)}}}
		}
	}
	return nil
}

// leaves says whether a member is on its way out and holds no range any more.
func leaves(t *membership.Table, id quota.NodeID) bool {
	m := t.Member(id)
	return (m.State == membership.Leaving || m.Dead) && !t.Holds(id)
}

func (n *Node) bidFarewell(id quota.NodeID) {
	if !n.routes.up(id) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), peercall.Limit)
	defer cancel()
	if _, err := n.call(ctx, id, &peerv1.Call{Body: &peerv1.Call_Gone{Gone: &peerv1.CallGone{}}}); err != nil {
		n.log.Info("a leaving node was not notified", "node", id, "err", err)
	}
}

func (n *Node) inMeta(id quota.NodeID) bool {
	g := n.host.Group(metaGroup)
	return g != nil && slices.ContainsFunc(g.Members(), func(m raftgroup.Member) bool { return m.ID == id })
}

// move begins the next step of groups that are not as wanted, a few at a time.
func (m *mover) move(ctx context.Context) {
	n := m.node
	t := n.meta.Members.Load()
	if !t.Seeded() {
		return
	}
	if m.read != t { // it changes seldom, and is asked for many times a second
		m.read = t
		m.meta, m.ranges = t.Placements(n.cfg.Ranges)
	}
	m.begin(ctx, t, metaGroup, m.meta)
	for r, want := range m.ranges {
		m.begin(ctx, t, group(quota.RangeID(r)), want)
	}
}

// begin begins the next step of a group, unless one is under way, it was as wanted
// just now, or enough others are moving.
func (m *mover) begin(ctx context.Context, t *membership.Table, g uint32, want shard.Placement) {
	m.mu.Lock()
	last, ok := m.done[g]
	rest := m.busy[g] || time.Since(m.tried[g]) < moveEvery*3/4 || ok && last.still(t, g, want) && time.Since(last.at) < lookAgain
	m.mu.Unlock()
	if rest || len(want.Voters) == 0 {
		return
	}
	select {
	case m.slots <- struct{}{}:
	default:
		return
	}
	m.mu.Lock()
	m.busy[g] = true
	m.mu.Unlock()
	go func() {
		m.advance(ctx, g)
		<-m.slots
		select {
		case m.freed <- struct{}{}:
		default:
		}
	}()
}

// advance takes a group as far as it goes now.
func (m *mover) advance(ctx context.Context, g uint32) {
	n := m.node
	for {
		t := n.meta.Members.Load()
		ctx, cancel := context.WithTimeout(ctx, stepLimit)
		step, err := n.advance(ctx, t, g, placementOf(t, g, n.cfg.Ranges))
		cancel()
		last := err != nil || step.Do == shard.Done || step.Do == shard.Wait || !n.leadsMeta()
		m.note(t, g, step, err, last)
		if last {
			return
		}
	}
}

func placementOf(t *membership.Table, g uint32, ranges int) shard.Placement {
	meta, each := t.Placements(ranges)
	if g == metaGroup {
		return meta
	}
	return each[g-1]
}

// note keeps what came of a step, the last one for now.
func (m *mover) note(t *membership.Table, g uint32, step shard.Step, err error, last bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if last {
		delete(m.busy, g)
		m.tried[g] = time.Now()
	}
	delete(m.done, g)
	if err == nil && step.Do == shard.Done {
		delete(m.doing, g)
		m.done[g] = settled{time.Now(), t.Revision(), placementOf(t, g, m.node.cfg.Ranges)}
		return
	}
	if err != nil {
		step.Why = err.Error()
	}
	m.doing[g] = step
}
