package membership

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/suggest"
	"github.com/quorate/quorate/shard"
)

// getPlan returns the groups that differ from their desired placement, or that would if the nodes in
// r.Without left.
func (s *Service) getPlan(ctx context.Context, _ *caller, r *quoratev1.GetPlanRequest) (_ *quoratev1.GetPlanResponse, err error) {
	ctx, span := s.cfg.Tracer.Start(ctx, "quorate.cluster.plan")
	defer func() { span.End(err) }()
	t := s.node.Table()
	nodes := t.Nodes()
	for _, id := range r.GetWithout() {
		i := slices.IndexFunc(nodes, func(s shard.Node) bool { return string(s.ID) == id })
		if i < 0 {
			return nil, s.View().unknown("without: ", id)
		}
		nodes[i].State = shard.Leaving
	}
	list, err := s.plan(t, nodes)
	if err != nil {
		return nil, refuse(Invalid, "plan: %v", err)
	}
	wanted := append([]shard.Placement{t.Placement(raftgroup.MetaGroup)}, t.Ranges(s.cfg.Ranges)...) // by group
	for _, p := range list {
		wanted[p.Group] = DecodePlacement(p)
	}
	out := &quoratev1.GetPlanResponse{Total: uint32(len(wanted))}
	for g := range wanted {
		if p := s.groupPlan(ctx, t, uint32(g), wanted[g]); p != nil {
			out.Groups = append(out.Groups, p)
		}
	}
	return out, nil
}

// groupPlan returns the steps ahead of a group; nil if it matches its placement.
func (s *Service) groupPlan(ctx context.Context, t *Table, g uint32, want shard.Placement) *quoratev1.GroupPlan {
	is, err := s.actual(ctx, t, g)
	out := &quoratev1.GroupPlan{Group: raftgroup.GroupName(g), Voters: texts(is.Voters), Wanted: texts(want.Voters)}
	if err != nil {
		out.Steps = []string{"wait: " + err.Error()}
		return out
	}
	for _, s := range shard.Steps(want, g == raftgroup.MetaGroup, is) {
		if s.Do != shard.Done {
			out.Steps = append(out.Steps, s.String())
		}
	}
	if len(out.Steps) == 0 {
		return nil
	}
	return out
}

// changeNode changes the desired state of a node.
func (s *Service) changeNode(ctx context.Context, c *caller, r *quoratev1.ChangeNodeRequest) (*quoratev1.ChangeNodeResponse, error) {
	id := quota.NodeID(r.GetNode())
	t, err := s.amend(ctx, c.revision, func(t *Table) (*raftlogv1.ChangeMembers, error) {
		have := t.Member(id)
		if have == nil {
			return nil, s.View().unknown("", string(id))
		}
		m := desired(*have, r.GetChange())
		if err := s.mayChange(t, have, r); err != nil {
			return nil, err
		}
		if m.State == have.State && m.Dead == have.Dead {
			return nil, nil
		}
		return putMember(&m), nil
	})
	if err != nil {
		return nil, err
	}
	return s.changedNode(t, r), nil
}

// changedNode returns the response of a change of a node, from the table after it.
func (s *Service) changedNode(t *Table, r *quoratev1.ChangeNodeRequest) *quoratev1.ChangeNodeResponse {
	id, state := quota.NodeID(r.GetNode()), Leaving
	if m := t.Member(id); m != nil { // else it has left since
		state = m.State
	}
	out := &quoratev1.ChangeNodeResponse{State: quoratev1.NodeState(state), Warning: s.warning(t, r.GetChange(), id)}
	if list, err := s.plan(t, t.Nodes()); err == nil {
		out.Moves = uint32(len(list))
	}
	return out
}

func (s *Service) nodeChanged(_ *caller, t *Table, r *quoratev1.ChangeNodeRequest) (*quoratev1.ChangeNodeResponse, bool, error) {
	id := quota.NodeID(r.GetNode())
	m := t.Member(id)
	if m == nil && t.removal(id) != nil { // it held no more replicas
		m = &Member{ID: id, State: Leaving, Dead: true}
	}
	if m == nil {
		return nil, false, nil
	}
	if want := desired(*m, r.GetChange()); m.State != want.State || m.Dead != want.Dead {
		return nil, false, nil
	}
	return s.changedNode(t, r), true, nil
}

// desired returns a member after a change of its desired state.
func desired(m Member, c quoratev1.NodeChange) Member {
	switch c { //nolint:exhaustive // mayChange refuses the others
	case quoratev1.NodeChange_NODE_CHANGE_ACTIVATE:
		m.State, m.Dead = Active, false
	case quoratev1.NodeChange_NODE_CHANGE_DRAIN:
		m.State = Draining
	case quoratev1.NodeChange_NODE_CHANGE_LEAVE:
		m.State = Leaving
	case quoratev1.NodeChange_NODE_CHANGE_REMOVE:
		m.State, m.Dead = Leaving, true
	}
	return m
}

// warning returns what an operator should know after changing a node.
func (s *Service) warning(t *Table, change quoratev1.NodeChange, id quota.NodeID) string {
	switch change { //nolint:exhaustive // the others are no loss
	case quoratev1.NodeChange_NODE_CHANGE_LEAVE, quoratev1.NodeChange_NODE_CHANGE_REMOVE:
		if fewest, err := s.fewestVoters(t, t.Nodes()); err == nil && fewest < t.Replicas() {
			return fmt.Sprintf("without %s, ranges have %s; replicas is %d, and the cluster tolerates the loss of %s: join another node",
				id, phrase.Plural(fewest, "live voter"), t.Replicas(), phrase.Plural((fewest-1)/2, "node"))
		}
	case quoratev1.NodeChange_NODE_CHANGE_DRAIN:
		if s.Tolerates() == 0 {
			return fmt.Sprintf("the cluster tolerates the loss of 0 nodes: the ranges in which %s votes stop while it is down", id)
		}
	}
	return ""
}

// fewestVoters returns the number of voters of the smallest range, if ranges were placed on those of
// the nodes that answer.
func (s *Service) fewestVoters(t *Table, nodes []shard.Node) (int, error) {
	nodes = slices.Clone(nodes)
	for i := range nodes {
		if id := nodes[i].ID; !s.answers(id) {
			nodes[i].State = shard.Leaving
		}
	}
	wanted, err := shard.Place(nodes, s.cfg.Ranges, t.Replicas(), t.Ranges(s.cfg.Ranges))
	if err != nil {
		return 0, err
	}
	fewest := t.Replicas()
	for _, p := range wanted {
		fewest = min(fewest, len(p.Voters))
	}
	return fewest, nil
}

// redundant refuses to let a node leave if ranges would then have fewer voters than now, and
// fewer than replicas asks for.
func (s *Service) redundant(t *Table, leaving quota.NodeID) error {
	nodes := t.Nodes()
	now, err := s.fewestVoters(t, nodes)
	if err != nil {
		return refuse(Invalid, "plan: %v", err)
	}
	for i := range nodes {
		if nodes[i].ID == leaving {
			nodes[i].State = shard.Leaving
		}
	}
	after, err := s.fewestVoters(t, nodes)
	if err != nil {
		return refuse(Invalid, "plan: %v", err)
	}
	if after >= now {
		return nil
	}
	return refuse(Forbidden, "node %q: removing it would leave ranges with %s; replicas is %d, and the cluster would tolerate the loss of %s; join another node first, or use --force",
		leaving, phrase.Plural(after, "live voter"), t.Replicas(), phrase.Plural((after-1)/2, "node"))
}

// mayChange returns why a change of m is refused; nil if it is not.
func (s *Service) mayChange(t *Table, m *Member, r *quoratev1.ChangeNodeRequest) error {
	up := s.answers(m.ID)
	switch r.GetChange() {
	case quoratev1.NodeChange_NODE_CHANGE_ACTIVATE:
		return nil
	case quoratev1.NodeChange_NODE_CHANGE_DRAIN:
		if m.State == Leaving {
			return refuse(Forbidden, "node %q: is leaving; activate it first", m.ID)
		}
	case quoratev1.NodeChange_NODE_CHANGE_LEAVE:
		if !up {
			return refuse(Forbidden, "node %q: does not answer, so it cannot hand over its replicas; remove it if it does not return", m.ID)
		}
		if m.State != Leaving && !r.GetForce() {
			if err := cmp.Or(s.enough(t, m), s.redundant(t, m.ID)); err != nil {
				return err
			}
		}
	case quoratev1.NodeChange_NODE_CHANGE_REMOVE:
		if up && !r.GetForce() {
			return refuse(Forbidden, "node %q: is alive; use cluster leave, or --force", m.ID)
		}
	default:
		return refuse(Invalid, "change: %d; must be drain, activate, leave or remove", r.GetChange())
	}
	return s.enough(t, m)
}

// enough refuses a change that leaves no active node, or none that answers, apart from
// the changed one.
func (s *Service) enough(t *Table, changed *Member) error {
	active, live := 0, 0
	for _, id := range t.IDs() {
		m := t.Member(id)
		if id == changed.ID || m.Node().State != shard.Active {
			continue
		}
		active++
		if s.answers(id) {
			live++
		}
	}
	switch {
	case active == 0:
		return refuse(Forbidden, "node %q: is the last active node and cannot be removed; join another node first", changed.ID)
	case live == 0:
		return refuse(Forbidden, "node %q: none of the other active nodes answers", changed.ID)
	}
	return nil
}

// unknown returns the error for a node that is not a member; field names where the request has it.
func (v *View) unknown(field, id string) error {
	var names []string
	for _, n := range v.IDs {
		names = append(names, string(n))
	}
	return refuse(Missing, "%sunknown node %q; known: %s", field, id, suggest.List(names, false))
}

// transferLeadership hands over ranges, one after the other.
func (s *Service) transferLeadership(ctx context.Context, _ *caller, r *quoratev1.TransferLeadershipRequest) (*quoratev1.TransferLeadershipResponse, error) {
	v := s.View()
	if len(r.GetRanges()) == 0 && r.GetFrom() == "" {
		return nil, refuse(Invalid, "ranges, from: give ranges, or the node to transfer them from")
	}
	for name, id := range map[string]string{"from": r.GetFrom(), "to": r.GetTo()} {
		if id != "" && v.Nodes[quota.NodeID(id)] == "" {
			return nil, v.unknown(name+": ", id)
		}
	}
	for _, rg := range r.GetRanges() {
		if int(rg) >= s.cfg.Ranges {
			return nil, refuse(Missing, "ranges: unknown range %d; known: 0 to %d", rg, s.cfg.Ranges-1)
		}
	}
	out := &quoratev1.TransferLeadershipResponse{}
	for _, rg := range s.rangesToMove(r) {
		if err := s.moveLeader(ctx, v, rg, quota.NodeID(r.GetFrom()), quota.NodeID(r.GetTo())); err != nil {
			if len(out.Faults) < 20 {
				out.Faults = append(out.Faults, fmt.Sprintf("range %d: %v", rg, err))
			}
			continue
		}
		out.Moved++
	}
	return out, nil
}

func (s *Service) rangesToMove(r *quoratev1.TransferLeadershipRequest) (out []quota.RangeID) {
	for _, rg := range r.GetRanges() {
		out = append(out, quota.RangeID(rg))
	}
	if len(out) > 0 {
		return out
	}
	for rg := range s.cfg.Ranges {
		if s.node.Leader(quota.RangeID(rg)) == quota.NodeID(r.GetFrom()) {
			out = append(out, quota.RangeID(rg))
		}
	}
	return out
}

// moveLeader hands over one range, which expected leads unless that is "", to a node; if to is "", to any other of its
// voters.
func (s *Service) moveLeader(ctx context.Context, v *View, r quota.RangeID, expected, to quota.NodeID) error {
	from := s.node.Leader(r)
	switch {
	case from == "":
		return fmt.Errorf("it has no leader now")
	case expected != "" && from != expected:
		return fmt.Errorf("%s leads it, not %s", from, expected)
	case from == to:
		return nil
	case to != "" && !slices.Contains(v.Ranges[r].Voters, to):
		return fmt.Errorf("%s is not one of its voters, %v", to, v.Ranges[r].Voters)
	}
	candidates := []quota.NodeID{to}
	if to == "" {
		candidates = slices.DeleteFunc(slices.Clone(v.Ranges[r].Voters), func(id quota.NodeID) bool { return id == from })
	}
	err := fmt.Errorf("it has no other voter")
	for _, id := range candidates {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		err = s.order(ctx, from, raftgroup.OfRange(r), shard.Step{Do: shard.Transfer, Node: id})
		cancel()
		if err == nil {
			return nil
		}
	}
	return err
}
