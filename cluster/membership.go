package cluster

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"google.golang.org/protobuf/encoding/protojson"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/shard"
)

// view is who is in the cluster and who holds what, as this node knows it. It is
// never changed.
//
// It comes from the settings until the meta group has a membership, then from
// there. A copy of it in the data directory is what a node starts with: it finds
// its peers, and the groups that it holds, before Raft has told it anything.
type view struct {
	table  *membership.Table
	nodes  map[quota.NodeID]string // peer addresses, this node's too
	ids    []quota.NodeID          // the same, sorted
	meta   shard.Placement
	ranges []shard.Placement
}

// member returns what is stored of a node, nil when that is nothing.
func (v *view) member(id quota.NodeID) *membership.Member { return v.table.Member(id) }

// names says whether a placement is of a node.
func names(p shard.Placement, id quota.NodeID) bool {
	return slices.Contains(p.Voters, id) || slices.Contains(p.Removed, id)
}

// staticView is the view out of the settings. A node that joins holds nothing
// until the meta group says so.
func staticView(cfg *Config) (*view, error) {
	v := &view{table: membership.New(nil), nodes: maps.Clone(cfg.Nodes), ids: slices.Sorted(maps.Keys(cfg.Nodes)), ranges: make([]shard.Placement, cfg.Ranges)}
	if cfg.Join {
		return v, nil
	}
	plan, err := shard.Plan(v.ids, cfg.Ranges, cfg.Replicas)
	if err != nil {
		return nil, err
	}
	for r, voters := range plan {
		v.ranges[r].Voters = voters
	}
	v.meta.Voters = v.ids[:min(metaVoters, len(v.ids)-1+len(v.ids)%2)]
	return v, nil
}

// viewOf is the view out of a membership.
func viewOf(t *membership.Table, ranges int) *view {
	v := &view{table: t, nodes: make(map[quota.NodeID]string, len(t.IDs())), ids: t.IDs()}
	for _, id := range v.ids {
		v.nodes[id] = t.Member(id).Peer
	}
	v.meta, v.ranges = t.Placements(ranges)
	return v
}

// bookFile is the node's copy of the membership, without its secrets.
const bookFile = "members.json"

// firstView is what the node starts with. stored says that it has been here
// before: its groups are on disk, and none is to be made.
func firstView(cfg *Config) (v *view, stored bool, err error) {
	path := filepath.Join(cfg.Dir, bookFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		v, err = staticView(cfg)
		return v, false, err
	}
	pb := &raftlogv1.Membership{}
	if err == nil {
		err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, pb)
	}
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w; it is a copy of what the meta group holds: put it back from another node's data directory", path, err)
	}
	v = viewOf(membership.New(pb), cfg.Ranges)
	if v.nodes[cfg.Self] == "" {
		return nil, false, fmt.Errorf("%s: node %q is no member of cluster %q any more: it has left or was removed. Join it anew, with another data directory", path, cfg.Self, cfg.Cluster)
	}
	return v, true, nil
}

// membersChanged takes a membership over that the meta group has committed, or
// replays: what is older than the node's own copy is history.
func (n *Node) membersChanged(t *membership.Table) {
	have := n.view.Load()
	if !t.Seeded() || t.Revision() <= have.table.Revision() {
		return
	}
	if n.isAnother(t.Member(n.cfg.Self)) {
		if have.member(n.cfg.Self) != nil {
			n.gone("another node has joined under its name")
		}
		return // replayed: from before this one joined
	}
	v := viewOf(t, n.cfg.Ranges)
	if v.nodes[n.cfg.Self] == "" {
		if have.member(n.cfg.Self) != nil { // not from before it joined
			n.gone("it is no member of the cluster any more")
		}
		return
	}
	n.view.Store(v)
	n.rearrange()
	n.announce()
}

// isAnother says whether a member of this node's name came in by another join.
func (n *Node) isAnother(m *membership.Member) bool {
	return m != nil && n.cfg.JoinID != "" && m.JoinID != n.cfg.JoinID
}

// saveView writes the node's copy of the membership.
func (n *Node) saveView(v *view) error {
	data, err := protojson.MarshalOptions{Multiline: true}.Marshal(v.table.Public())
	if err != nil {
		return err
	}
	return writeBytes(filepath.Join(n.cfg.Dir, bookFile), append(data, '\n'))
}

// gone says, once, that this node is out of the cluster: whoever runs it stops it.
func (n *Node) gone(why string) {
	n.left.Do(func() {
		n.log.Warn("this node is out of the cluster", "why", why)
		close(n.out)
	})
}

// Out is closed when the node has left the cluster, or was removed: it is to be
// closed, and its data is of no use any more.
func (n *Node) Out() <-chan struct{} { return n.out }

func (n *Node) isOut() bool {
	select {
	case <-n.out:
		return true
	default:
		return false
	}
}
