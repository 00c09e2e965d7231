package membership

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"google.golang.org/protobuf/encoding/protojson"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/syncdir"
	"github.com/quorate/quorate/shard"
)

// View is this node's immutable view of the members and the placements.
//
// It comes from the settings until the meta group has a membership, then from that
// membership. A node starts with the copy of it in the data directory, which names
// its peers and the groups that it holds before Raft has delivered anything.
type View struct {
	Table  *Table
	Nodes  map[quota.NodeID]string // peer addresses, including this node's
	IDs    []quota.NodeID          // the keys of Nodes, sorted
	Meta   shard.Placement
	Ranges []shard.Placement
}

// View returns this node's current view of the cluster.
func (s *Service) View() *View { return s.view.Load() }

// Member returns the stored member of a name, or nil.
func (v *View) Member(id quota.NodeID) *Member { return v.Table.Member(id) }

// Names reports whether a placement names a node, as a voter or as removed.
func Names(p shard.Placement, id quota.NodeID) bool {
	return slices.Contains(p.Voters, id) || slices.Contains(p.Removed, id)
}

// SettingsView returns the view that the settings define. A joining node holds nothing
// until the meta group says so.
func SettingsView(cfg *Config) (*View, error) {
	v := &View{Table: New(nil), Nodes: maps.Clone(cfg.Nodes), IDs: slices.Sorted(maps.Keys(cfg.Nodes)), Ranges: make([]shard.Placement, cfg.Ranges)}
	if cfg.Join {
		return v, nil
	}
	plan, err := shard.Plan(v.IDs, cfg.Ranges, cfg.Replicas)
	if err != nil {
		return nil, err
	}
	for r, voters := range plan {
		v.Ranges[r].Voters = voters
	}
	v.Meta.Voters = v.IDs[:min(metaVoters, len(v.IDs)-1+len(v.IDs)%2)]
	return v, nil
}

// ViewOf returns the view of a membership.
func ViewOf(t *Table, ranges int) *View {
	v := &View{Table: t, Nodes: make(map[quota.NodeID]string, len(t.IDs())), IDs: t.IDs()}
	for _, id := range v.IDs {
		v.Nodes[id] = t.Member(id).Peer
	}
	v.Meta, v.Ranges = t.Placement(raftgroup.MetaGroup), t.Ranges(ranges)
	return v
}

// metaVoters is the maximum number of voters in the meta group.
const metaVoters = 3

// File is the node's copy of the membership in its data directory, without its secrets.
const File = "members.json"

// FirstView returns the view with which the node starts. stored reports that the view comes from
// the data directory: the node's groups are on disk then, and it must create none.
func FirstView(cfg *Config) (v *View, stored bool, err error) {
	path := filepath.Join(cfg.Dir, File)
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		v, err = SettingsView(cfg)
		return v, false, err
	}
	pb := &raftlogv1.Membership{}
	if err == nil {
		err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, pb)
	}
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w; restore it from another node's data directory: it is a copy of the meta group's data", path, err)
	}
	v = ViewOf(New(pb), cfg.Ranges)
	if v.Nodes[cfg.Self] == "" {
		return nil, false, fmt.Errorf("%s: node %q is no longer a member of cluster %q: it has left or was removed. Join it again, with another data directory", path, cfg.Self, cfg.Cluster)
	}
	return v, true, nil
}

// Changed applies a membership that the meta group has committed or
// replays. It ignores one that is not newer than the node's own copy.
func (s *Service) Changed(t *Table) {
	have := s.View()
	if !t.Seeded() || t.Revision() <= have.Table.Revision() {
		return
	}
	if s.isAnother(t.Member(s.cfg.Self)) {
		if have.Member(s.cfg.Self) != nil {
			s.leave("another node has joined under its name")
		}
		return // replayed from before this node joined
	}
	v := ViewOf(t, s.cfg.Ranges)
	if v.Nodes[s.cfg.Self] == "" {
		if have.Member(s.cfg.Self) != nil { // not from before it joined
			s.leave("it is no longer a member of the cluster")
		}
		return
	}
	s.view.Store(v)
	s.wakeReconciler()
	s.node.Announce()
}

// isAnother reports whether a member of this node's name came from another join.
func (s *Service) isAnother(m *Member) bool {
	return m != nil && s.cfg.JoinID != "" && m.JoinID != s.cfg.JoinID
}

// saveView writes the node's copy of the membership.
func (s *Service) saveView(v *View) error {
	data, err := protojson.MarshalOptions{Multiline: true}.Marshal(v.Table.Public())
	if err != nil {
		return err
	}
	return syncdir.WriteFile(filepath.Join(s.cfg.Dir, File), append(data, '\n'))
}

// leave marks this node as out of the cluster, once, by closing the channel of Out.
func (s *Service) leave(why string) {
	s.left.Do(func() {
		s.log.Warn("this node is out of the cluster", "why", why)
		close(s.out)
	})
}

// Out returns a channel that is closed once the node has left the cluster or was removed. The node
// should then be closed; its data is useless.
func (s *Service) Out() <-chan struct{} { return s.out }

// IsOut reports whether Out is closed.
func (s *Service) IsOut() bool {
	select {
	case <-s.out:
		return true
	default:
		return false
	}
}
