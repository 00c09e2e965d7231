package membership

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/cluster/peercall"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/shard"
)

// Pace of the rebalancer.
const (
	moveEvery    = 200 * time.Millisecond // interval of checks
	maxMoves     = 4                      // groups that change at a time
	stepLimit    = 10 * time.Second       // timeout of one step
	recheckEvery = 15 * time.Second       // interval of checks of groups that matched their placement
)

// rebalancer moves the groups towards their desired placement while this node leads the meta
// group. The desired state is in the meta group and the actual state in each group's Raft
// configuration, so a crash of the rebalancer loses nothing, and it repeats nothing
// that must happen once. Every node has a rebalancer; only the meta leader's is active.
type rebalancer struct {
	service *Service
	slots   chan struct{}

	mu    sync.Mutex
	doing map[uint32]shard.Step // step in progress or waiting, by group
	busy  map[uint32]bool
	done  map[uint32]asWanted  // groups that matched their placement
	tried map[uint32]time.Time // when a group was blocked, or matched its placement

	freed   chan struct{} // signals a free slot
	planned atomic.Uint64 // latest revision of the membership whose plan changed nothing
}

// asWanted records when a group matched its placement, and that placement.
type asWanted struct {
	at       time.Time
	revision uint64 // of the membership
	want     shard.Placement
}

// still reports whether the group's desired placement is unchanged. For the meta group, of which all
// members have a replica, the whole membership must be unchanged.
func (s asWanted) still(t *Table, g uint32, want shard.Placement) bool {
	if g == raftgroup.MetaGroup || s.revision == t.Revision() {
		return s.revision == t.Revision()
	}
	return slices.Equal(s.want.Voters, want.Voters) && slices.Equal(s.want.Removed, want.Removed)
}

func (s *Service) rebalance() {
	ctx := s.ctx
	defer func() { // wait for the steps in progress, and keep their slots
		for range maxMoves {
			s.rebalancer.slots <- struct{}{}
		}
	}()
	tick := time.NewTicker(moveEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.rebalancer.freed:
			if s.LeadsMeta() {
				s.rebalancer.move(ctx)
			}
			continue
		case <-tick.C:
		}
		s.announceSelf(ctx)
		if !s.LeadsMeta() {
			s.rebalancer.forget()
			continue
		}
		if err := s.maintain(ctx); err != nil && ctx.Err() == nil {
			s.log.Debug("membership not reconciled", "err", err)
		}
		s.rebalancer.move(ctx)
	}
}

// forget drops the progress of groups, on a node that does not lead the meta group.
func (r *rebalancer) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.doing)
	clear(r.done)
}

// pendingStep describes the step of a group that is in progress or pending; "" if the group was
// seen to match its present placement.
func (r *rebalancer) pendingStep(t *Table, g uint32, want shard.Placement) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.doing[g]; ok {
		return s.String()
	}
	if last, ok := r.done[g]; len(want.Voters) == 0 || ok && last.still(t, g, want) {
		return ""
	}
	return "wait: for its turn"
}

// LeadsMeta reports whether this node leads the meta group.
func (s *Service) LeadsMeta() bool {
	g := s.node.Host().Group(raftgroup.MetaGroup)
	if g == nil {
		return false
	}
	_, _, serving := g.Leader()
	return serving
}

// maintain makes at most one change of the membership: it creates the first one, raises the feature
// level, gives up nodes that have been silent for long, updates placements, or removes a leaving
// member that holds nothing.
func (s *Service) maintain(ctx context.Context) error {
	t := s.node.Table()
	if !t.Seeded() {
		return s.seed(ctx, t)
	}
	raise := func(t *Table) *raftlogv1.ChangeMembers { return raiseLevel(t, Level) }
	for _, next := range []func(*Table) *raftlogv1.ChangeMembers{raise, s.giveUpSilent, s.placeChanged, s.dropEmpty} {
		if c := next(t); c != nil {
			_, err := s.commitMembers(ctx, t, c)
			return err
		}
	}
	return nil
}

// commitMembers proposes a change that is based on t. If the change itself is refused, the error
// is an *Error or ErrStale.
func (s *Service) commitMembers(ctx context.Context, t *Table, c *raftlogv1.ChangeMembers) (*Table, error) {
	c.Revision, c.AtUnixNanos = t.Revision(), int64(s.node.Now())
	return s.node.Commit(ctx, c)
}

// seed creates the first membership from the settings, once every node is connected and has
// this version's feature level or a higher one: a node that does not understand a log entry
// would diverge from the others.
func (s *Service) seed(ctx context.Context, t *Table) error {
	v := s.View()
	seed := &raftlogv1.Membership{Level: Level, Replicas: uint32(s.cfg.Replicas)}
	for _, id := range v.IDs {
		if id != s.cfg.Self && (!s.node.Up(id) || s.node.Net().LevelOf(id) < Level) {
			return nil
		}
		first := s.node.Net().FirstIncarnationOf(id)
		if id == s.cfg.Self {
			first = s.cfg.First
		}
		m := &Member{ID: id, Peer: v.Nodes[id], State: Active, Level: Level, First: first}
		seed.Members = append(seed.Members, m.Encode())
	}
	if a := s.cfg.Authority; a != nil {
		seed.Authority = &raftlogv1.StoredAuthority{Certificate: a.CertPEM, Key: a.KeyPEM}
	}
	seed.Placements = append(seed.Placements, EncodePlacement(raftgroup.MetaGroup, v.Meta))
	for r, p := range v.Ranges {
		seed.Placements = append(seed.Placements, EncodePlacement(raftgroup.OfRange(quota.RangeID(r)), p))
	}
	_, err := s.commitMembers(ctx, t, &raftlogv1.ChangeMembers{Change: &raftlogv1.ChangeMembers_Seed{Seed: seed}})
	return err
}

// giveUpSilent marks a member as dead that has been silent for DeadAfter, if the remaining active
// members can hold all replicas and are a majority of all members: a
// leader that is cut off gives up no node.
func (s *Service) giveUpSilent(t *Table) *raftlogv1.ChangeMembers {
	after := s.cfg.DeadAfter
	if after < 0 {
		return nil
	}
	var silent []quota.NodeID
	for id, d := range s.node.Silences() {
		if d >= after {
			silent = append(silent, id)
		}
	}
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
			dead.Dead = true // not Leaving: a range never loses voters automatically
			s.log.Warn("a node counts as dead: its replicas move to others", "node", id, "silent_for", after)
			return putMember(&dead)
		}
	}
	return nil
}

func putMember(m *Member) *raftlogv1.ChangeMembers {
	return &raftlogv1.ChangeMembers{Change: &raftlogv1.ChangeMembers_Put{Put: m.Encode()}}
}

// placeChanged returns the change that stores the placements that the plan changes; nil if none.
func (s *Service) placeChanged(t *Table) *raftlogv1.ChangeMembers {
	if s.rebalancer.planned.Load() == t.Revision() {
		return nil
	}
	list, err := s.plan(t, t.Nodes())
	if err != nil {
		s.log.Error("no placement", "err", err)
		return nil
	}
	if len(list) == 0 {
		s.rebalancer.planned.Store(t.Revision())
		return nil
	}
	_, span := s.cfg.Tracer.Start(context.Background(), "quorate.cluster.plan")
	span.Int("quorate.revision", int64(t.Revision()))
	span.Int("quorate.groups", int64(len(list)))
	span.End(nil)
	return &raftlogv1.ChangeMembers{Change: &raftlogv1.ChangeMembers_Place{Place: &raftlogv1.PutPlacements{Placements: list}}}
}

// plan returns the placements that change if the cluster has these nodes.
func (s *Service) plan(t *Table, nodes []shard.Node) ([]*raftlogv1.StoredPlacement, error) {
	meta, before := t.Placement(raftgroup.MetaGroup), t.Ranges(s.cfg.Ranges)
	wanted, err := shard.Place(nodes, s.cfg.Ranges, t.Replicas(), before)
	if err != nil {
		return nil, err
	}
	var out []*raftlogv1.StoredPlacement
	change := func(g uint32, was, is shard.Placement) {
		if !slices.Equal(was.Voters, is.Voters) || !slices.Equal(was.Removed, is.Removed) {
			out = append(out, EncodePlacement(g, is))
		}
	}
	voters := shard.PlaceMeta(nodes, metaVoters, meta.Voters)
	change(raftgroup.MetaGroup, meta, shard.Placement{Voters: voters})
	for r := range wanted {
		change(raftgroup.OfRange(quota.RangeID(r)), before[r], wanted[r])
	}
	return out, nil
}

// dropEmpty returns the change that removes a leaving or dead member that holds nothing; nil if there
// is no such member. It notifies the member first: once removed, it gets no connections.
func (s *Service) dropEmpty(t *Table) *raftlogv1.ChangeMembers {
	for _, id := range t.IDs() {
		if id != s.cfg.Self && leaves(t, id) && !s.inMeta(id) {
			s.notifyRemoval(id)
			return &raftlogv1.ChangeMembers{Change: &raftlogv1.ChangeMembers_Drop{Drop: &raftlogv1.DropMember{Id: string(id)}}}
		}
	}
	return nil
}

// leaves reports whether a member is leaving or dead and is named by no placement.
func leaves(t *Table, id quota.NodeID) bool {
	m := t.Member(id)
	return (m.State == Leaving || m.Dead) && !t.Holds(id)
}

func (s *Service) notifyRemoval(id quota.NodeID) {
	if !s.node.Up(id) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), peercall.Limit)
	defer cancel()
	if _, err := s.node.Call(ctx, id, &peerv1.Call{Body: &peerv1.Call_Gone{Gone: &peerv1.CallGone{}}}); err != nil {
		s.log.Info("a leaving node was not notified", "node", id, "err", err)
	}
}

func (s *Service) inMeta(id quota.NodeID) bool {
	g := s.node.Host().Group(raftgroup.MetaGroup)
	return g != nil && slices.ContainsFunc(g.Members(), func(m raftgroup.Member) bool { return m.ID == id })
}

// move starts the next step of groups that differ from their placement, at most maxMoves at a time.
func (r *rebalancer) move(ctx context.Context) {
	t := r.service.node.Table()
	if !t.Seeded() {
		return
	}
	r.begin(ctx, t, raftgroup.MetaGroup)
	for id := range quota.RangeID(r.service.cfg.Ranges) {
		r.begin(ctx, t, raftgroup.OfRange(id))
	}
}

// begin starts the next step of a group, unless a step is in progress, the group recently matched its
// placement or was blocked, or maxMoves groups are moving.
func (r *rebalancer) begin(ctx context.Context, t *Table, g uint32) {
	want := t.Placement(g)
	r.mu.Lock()
	last, ok := r.done[g]
	rest := r.busy[g] || time.Since(r.tried[g]) < moveEvery*3/4 || ok && last.still(t, g, want) && time.Since(last.at) < recheckEvery
	r.mu.Unlock()
	if rest || len(want.Voters) == 0 {
		return
	}
	select {
	case r.slots <- struct{}{}:
	default:
		return
	}
	r.mu.Lock()
	r.busy[g] = true
	r.mu.Unlock()
	go func() {
		r.advance(ctx, g)
		<-r.slots
		select {
		case r.freed <- struct{}{}:
		default:
		}
	}()
}

// advance carries out steps of a group until it matches its placement or cannot proceed.
func (r *rebalancer) advance(ctx context.Context, g uint32) {
	s := r.service
	for {
		t := s.node.Table()
		ctx, cancel := context.WithTimeout(ctx, stepLimit)
		step, err := s.advance(ctx, t, g)
		cancel()
		last := err != nil || step.Do == shard.Done || step.Do == shard.Wait || !s.LeadsMeta()
		r.note(t, g, step, err, last)
		if last {
			return
		}
	}
}

// note records the outcome of a step. last means that no step follows for now.
func (r *rebalancer) note(t *Table, g uint32, step shard.Step, err error, last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last {
		delete(r.busy, g)
		r.tried[g] = time.Now()
	}
	delete(r.done, g)
	if err == nil && step.Do == shard.Done {
		delete(r.doing, g)
		r.done[g] = asWanted{time.Now(), t.Revision(), t.Placement(g)}
		return
	}
	if err != nil {
		step.Why = err.Error()
	}
	r.doing[g] = step
}

// raiseLevel returns the change that raises the cluster's feature level to the lowest level of its
// living members and own, which is the level of this node's software; nil if the cluster has that level.
func raiseLevel(t *Table, own uint32) *raftlogv1.ChangeMembers {
	low := own
	for _, id := range t.IDs() {
		if m := t.Member(id); !m.Dead {
			low = min(low, m.Level)
		}
	}
	if low <= t.Level() {
		return nil
	}
	return &raftlogv1.ChangeMembers{Change: &raftlogv1.ChangeMembers_Level{Level: &raftlogv1.RaiseLevel{Level: low}}}
}
