package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/internal/pki"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/shard"
)

// getPlan tells what is not as wanted, or would not be without some nodes.
func (n *Node) getPlan(ctx context.Context, r *quoratev1.GetPlanRequest) (_ *quoratev1.GetPlanResponse, err error) {
	ctx, span := n.cfg.Tracer.Start(ctx, "quorate.cluster.plan")
	defer func() { span.End(err) }()
	t := n.meta.Members.Load()
	nodes := t.Nodes()
	for _, id := range r.GetWithout() {
		i := slices.IndexFunc(nodes, func(s shard.Node) bool { return string(s.ID) == id })
		if i < 0 {
			return nil, &membership.Error{Kind: membership.Missing, Text: fmt.Sprintf("without: %q: there is no member of that name", id)}
		}
		nodes[i].State = shard.Leaving
	}
	list, err := n.plan(t, nodes)
	if err != nil {
		return nil, invalid("plan: %v", err)
	}
	meta, ranges := t.Placements(n.cfg.Ranges)
	wanted := append([]shard.Placement{meta}, ranges...)
	for _, p := range list {
		wanted[p.Group] = membership.DecodePlacement(p)
	}
	out := &quoratev1.GetPlanResponse{Total: uint32(len(wanted))}
	for g := range wanted {
		if p := n.groupPlan(ctx, t, uint32(g), wanted[g]); p != nil {
			out.Groups = append(out.Groups, p)
		}
	}
	return out, nil
}

// groupPlan is what happens to a group, nil when it is as wanted.
func (n *Node) groupPlan(ctx context.Context, t *membership.Table, g uint32, want shard.Placement) *quoratev1.GroupPlan {
	is, err := n.actual(ctx, t, g)
	out := &quoratev1.GroupPlan{Group: groupName(g), Voters: texts(is.Voters), Wanted: texts(want.Voters)}
	if err != nil {
		out.Steps = []string{"wait: " + err.Error()}
		return out
	}
	for _, s := range shard.Steps(want, g == metaGroup, is) {
		if s.Do != shard.Done {
			out.Steps = append(out.Steps, s.String())
		}
	}
	if len(out.Steps) == 0 {
		return nil
	}
	return out
}

// changeNode changes what is wanted of a node.
func (n *Node) changeNode(ctx context.Context, r *quoratev1.ChangeNodeRequest) (*quoratev1.ChangeNodeResponse, error) {
	id := quota.NodeID(r.GetNode())
	var m membership.Member
	t, err := n.amend(ctx, func(t *membership.Table) (*raftlogv1.ChangeMembers, error) {
		have := t.Member(id)
		if have == nil {
			return nil, &membership.Error{Kind: membership.Missing, Text: fmt.Sprintf("node %q: there is no member of that name", id)}
		}
		m = *have
		if err := n.changed(t, &m, r); err != nil {
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
	out := &quoratev1.ChangeNodeResponse{State: quoratev1.NodeState(m.State), Warning: n.warning(t, r.GetChange(), m.ID)}
	if list, err := n.plan(t, t.Nodes()); err == nil {
		out.Moves = uint32(len(list))
	}
	return out, nil
}

// warning is what an operator should know after a change of a node.
func (n *Node) warning(t *membership.Table, change quoratev1.NodeChange, id quota.NodeID) string {
	switch change { //nolint:exhaustive // the others are no loss
	case quoratev1.NodeChange_NODE_CHANGE_LEAVE, quoratev1.NodeChange_NODE_CHANGE_REMOVE:
		if fewest, err := n.fewestVoters(t, t.Nodes()); err == nil && fewest < t.Replicas() {
			return fmt.Sprintf("without %s there are ranges with %s, where replicas: %d asks for more, and the cluster tolerates the loss of %s: join another node",
				id, plural(fewest, "answering voter"), t.Replicas(), plural((fewest-1)/2, "node"))
		}
	case quoratev1.NodeChange_NODE_CHANGE_DRAIN:
		if n.tolerates(n.view.Load()) == 0 {
			return fmt.Sprintf("the cluster tolerates the loss of 0 nodes: ranges that %s votes in stop while it is down", id)
		}
	}
	return ""
}

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// fewestVoters is how many voters the range with the fewest would have with those of the nodes that answer.
func (n *Node) fewestVoters(t *membership.Table, nodes []shard.Node) (int, error) {
	nodes = slices.Clone(nodes)
	for i := range nodes {
		if id := nodes[i].ID; id != n.cfg.Self && !n.routes.up(id) {
			nodes[i].State = shard.Leaving
		}
	}
	_, before := t.Placements(n.cfg.Ranges)
	wanted, err := shard.Place(nodes, n.cfg.Ranges, t.Replicas(), before)
	if err != nil {
		return 0, err
	}
	fewest := t.Replicas()
	for _, p := range wanted {
		fewest = min(fewest, len(p.Voters))
	}
	return fewest, nil
}

// redundant refuses that a node leaves if ranges would then have fewer voters than now, and
// fewer than replicas asks for.
func (n *Node) redundant(t *membership.Table, leaving quota.NodeID) error {
	nodes := t.Nodes()
	now, err := n.fewestVoters(t, nodes)
	if err != nil {
		return invalid("plan: %v", err)
	}
	for i := range nodes {
		if nodes[i].ID == leaving {
			nodes[i].State = shard.Leaving
		}
	}
	after, err := n.fewestVoters(t, nodes)
	if err != nil {
		return invalid("plan: %v", err)
	}
	if after >= now {
		return nil
	}
	return &membership.Error{Kind: membership.Forbidden, Text: fmt.Sprintf(
		"node %q: without it there would be ranges with %s, where replicas: %d asks for more, and the cluster would tolerate the loss of %s; join another node first, or force it",
		leaving, plural(after, "answering voter"), t.Replicas(), plural((after-1)/2, "node"))}
}

// changed makes the change, or says why it is not to be.
func (n *Node) changed(t *membership.Table, m *membership.Member, r *quoratev1.ChangeNodeRequest) error {
	up := m.ID == n.cfg.Self || n.routes.up(m.ID)
	switch r.GetChange() {
	case quoratev1.NodeChange_NODE_CHANGE_ACTIVATE:
		m.State, m.Dead = membership.Active, false
		return nil
	case quoratev1.NodeChange_NODE_CHANGE_DRAIN:
		if m.State == membership.Leaving {
			return &membership.Error{Kind: membership.Forbidden, Text: fmt.Sprintf("node %q: is leaving; activate it first", m.ID)}
		}
		m.State = membership.Draining
	case quoratev1.NodeChange_NODE_CHANGE_LEAVE:
		if !up {
			return &membership.Error{Kind: membership.Forbidden, Text: fmt.Sprintf("node %q: does not answer, so it can give nothing away; remove it if it never comes back", m.ID)}
		}
		if m.State != membership.Leaving && !r.GetForce() {
			if err := cmp.Or(n.enough(t, m), n.redundant(t, m.ID)); err != nil {
				return err
			}
		}
		m.State = membership.Leaving
	case quoratev1.NodeChange_NODE_CHANGE_REMOVE:
		if up && !r.GetForce() {
			return &membership.Error{Kind: membership.Forbidden, Text: fmt.Sprintf("node %q: answers; let it leave instead, or force its removal", m.ID)}
		}
		m.State, m.Dead = membership.Leaving, true
	default:
		return invalid("change: %d; must be drain, activate, leave or remove", r.GetChange())
	}
	return n.enough(t, m)
}

// enough refuses a change after which no active node would be left, or which would
// leave the meta group without a majority that lives.
func (n *Node) enough(t *membership.Table, changed *membership.Member) error {
	active, live := 0, 0
	for _, id := range t.IDs() {
		m := t.Member(id)
		if id == changed.ID || m.Node().State != shard.Active {
			continue
		}
		active++
		if id == n.cfg.Self || n.routes.up(id) {
			live++
		}
	}
	switch {
	case active == 0:
		return &membership.Error{Kind: membership.Forbidden, Text: fmt.Sprintf("node %q: is the last active one; somebody must hold the cluster", changed.ID)}
	case live == 0:
		return &membership.Error{Kind: membership.Forbidden, Text: fmt.Sprintf("node %q: none of the other active nodes answers", changed.ID)}
	}
	return nil
}

// transferLeadership hands ranges over, one after the other.
func (n *Node) transferLeadership(ctx context.Context, r *quoratev1.TransferLeadershipRequest) (*quoratev1.TransferLeadershipResponse, error) {
	v := n.view.Load()
	if len(r.GetRanges()) == 0 && r.GetFrom() == "" {
		return nil, invalid("ranges, from: give ranges, or the node whose ranges go")
	}
	for name, id := range map[string]string{"from": r.GetFrom(), "to": r.GetTo()} {
		if id != "" && v.nodes[quota.NodeID(id)] == "" {
			return nil, invalid("%s: %q is no member of the cluster", name, id)
		}
	}
	for _, rg := range r.GetRanges() {
		if int(rg) >= n.cfg.Ranges {
			return nil, invalid("ranges: %d; must be 0 to %d", rg, n.cfg.Ranges-1)
		}
	}
	out := &quoratev1.TransferLeadershipResponse{}
	for _, rg := range n.rangesToMove(r) {
		if err := n.moveLeader(ctx, v, rg, quota.NodeID(r.GetTo())); err != nil {
			if len(out.Faults) < 20 {
				out.Faults = append(out.Faults, fmt.Sprintf("range %d: %v", rg, err))
			}
			continue
		}
		out.Moved++
	}
	return out, nil
}

func (n *Node) rangesToMove(r *quoratev1.TransferLeadershipRequest) (out []quota.RangeID) {
	for _, rg := range r.GetRanges() {
		out = append(out, quota.RangeID(rg))
	}
	if len(out) > 0 {
		return out
	}
	for rg := range n.cfg.Ranges {
		if n.routes.leader(quota.RangeID(rg)) == quota.NodeID(r.GetFrom()) {
			out = append(out, quota.RangeID(rg))
		}
	}
	return out
}

// moveLeader hands one range over to a node, or to any other of its voters.
func (n *Node) moveLeader(ctx context.Context, v *view, r quota.RangeID, to quota.NodeID) error {
	from := n.routes.leader(r)
	switch {
	case from == "":
		return fmt.Errorf("it has no leader now")
	case from == to:
		return nil
	case to != "" && !slices.Contains(v.ranges[r].Voters, to):
		return fmt.Errorf("%s is none of its voters, which are %v", to, v.ranges[r].Voters)
	}
	candidates := []quota.NodeID{to}
	if to == "" {
		candidates = slices.DeleteFunc(slices.Clone(v.ranges[r].Voters), func(id quota.NodeID) bool { return id == from })
	}
	err := fmt.Errorf("it has no other voter")
	for _, id := range candidates {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		err = n.order(ctx, from, group(r), shard.Step{Do: shard.Transfer, Node: id})
		cancel()
		if err == nil {
			return nil
		}
	}
	return err
}

// Bounds of client certificates.
const (
	defaultClientTTL = 90 * 24 * time.Hour
	maxClientTTL     = 366 * 24 * time.Hour
)

func (n *Node) issueCertificate(r *quoratev1.IssueCertificateRequest) (*quoratev1.IssueCertificateResponse, error) {
	ttl := defaultClientTTL
	if r.Ttl != nil {
		ttl = r.Ttl.AsDuration()
	}
	if ttl < time.Minute || ttl > maxClientTTL {
		return nil, invalid("ttl: %v; must be 1m to 8784h", ttl)
	}
	t := n.meta.Members.Load()
	cert, err := n.sign(t, r.GetCsr(), pki.Identity{Cluster: n.cfg.Cluster, Kind: pki.Client, Name: r.GetName()}, nil, ttl)
	if err != nil {
		return nil, err
	}
	return &quoratev1.IssueCertificateResponse{Certificate: cert, Trust: trustOf(t.Authority())}, nil
}

// authorityTTL is how long an authority signs and is trusted.
const authorityTTL = 10 * 365 * 24 * time.Hour

// rotateAuthority begins a rotation, ends one, or tells how far it is.
func (n *Node) rotateAuthority(ctx context.Context, r *quoratev1.RotateAuthorityRequest) (*quoratev1.RotateAuthorityResponse, error) {
	t, err := n.amend(ctx, func(t *membership.Table) (*raftlogv1.ChangeMembers, error) {
		a := t.Authority()
		if a == nil {
			return nil, &membership.Error{Kind: membership.Forbidden, Text: "this cluster has no authority of its own: its certificates come from its operator"}
		}
		phase, waits := rotation(t)
		switch {
		case r.GetAsk():
			return nil, nil
		case r.GetFinish() && phase != "finishing":
			return nil, &membership.Error{Kind: membership.Forbidden, Text: fmt.Sprintf("finish: the rotation is not so far: %s %s", phase, waits)}
		case r.GetFinish():
			return putAuthority(&raftlogv1.StoredAuthority{Certificate: a.Certificate, Key: a.Key}), nil
		case phase == "trusted":
			return putAuthority(&raftlogv1.StoredAuthority{Certificate: a.NextCertificate, Key: a.NextKey, LastCertificate: a.Certificate}), nil
		case phase != "steady":
			return nil, nil // under way already
		}
		ca, err := pki.NewCA(n.cfg.Cluster, time.Now(), authorityTTL)
		if err != nil {
			return nil, err
		}
		p, err := ca.Pair()
		if err != nil {
			return nil, err
		}
		return putAuthority(&raftlogv1.StoredAuthority{Certificate: a.Certificate, Key: a.Key, NextCertificate: p.CertPEM, NextKey: p.KeyPEM}), nil
	})
	if err != nil {
		return nil, err
	}
	out := &quoratev1.RotateAuthorityResponse{Fingerprint: fingerprint(t.Authority().GetCertificate()), Trust: trustOf(t.Authority()), LostJoinTokens: lostTokens(t)}
	out.Phase, out.WaitsFor = rotation(t)
	return out, nil
}

// rotation is how far a rotation is, and what it waits for.
func rotation(t *membership.Table) (phase, waits string) {
	a := t.Authority()
	if len(a.GetNextCertificate()) > 0 {
		next := fingerprint(a.NextCertificate)
		if late := lateMembers(t, func(m *membership.Member) bool { return slices.Contains(m.Trusts, next) }); len(late) > 0 {
			return "trusting", fmt.Sprintf("nodes that do not trust the next authority yet: %v", late)
		}
		return "trusted", "an operator, who has the clients trust the next authority too, and then rotates on: it signs then"
	}
	if len(a.GetLastCertificate()) == 0 {
		return "steady", ""
	}
	current := fingerprint(a.Certificate)
	if late := lateMembers(t, func(m *membership.Member) bool { return m.SignedBy == current }); len(late) > 0 {
		return "signing", fmt.Sprintf("nodes whose certificate is of the earlier authority: %v", late)
	}
	return "finishing", "an operator, who renews the clients' certificates and then ends the trust in the earlier authority"
}
