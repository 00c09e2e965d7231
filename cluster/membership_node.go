package cluster

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/cluster/control"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/snapshotio"
)

// membership returns the part of the settings that package membership needs.
func (c *Config) membership(s starts) membership.Config {
	return membership.Config{
		Cluster: c.Cluster, Self: c.Self, Nodes: c.Nodes, Dir: c.Dir, Ranges: c.Ranges, Replicas: c.Replicas, Sync: c.Sync,
		Join: c.Join, JoinID: c.JoinID, Zone: c.Zone, GRPC: c.GRPC, HTTP: c.HTTP, Version: c.Version,
		Certificates: c.Certificates, Authority: c.Authority, TLS: c.TLS, DeadAfter: cmp.Or(c.DeadAfter, DefaultDeadAfter),
		Incarnation: s.inc, First: s.first, Tracer: c.Tracer, Log: c.Logger,
	}
}

// memberNode adapts Node to membership.Node.
type memberNode struct{ part }

func (n memberNode) CallSlow(ctx context.Context, to quota.NodeID, c *peerv1.Call) (*peerv1.Call, error) {
	return slow(n).Call(ctx, to, c)
}

func (n memberNode) Net() *transport.Net { return n.net }

func (n memberNode) Host() *raftgroup.Host { return n.host }

func (n memberNode) Silences() map[quota.NodeID]time.Duration { return n.routes.silences() }

func (n memberNode) Newest(revision uint64) bool { return n.routes.hasMembers(revision) }

func (n memberNode) Table() *membership.Table { return n.meta.Members.Load() }

func (n memberNode) Commit(ctx context.Context, c *raftlogv1.ChangeMembers) (*membership.Table, error) {
	res, err := n.ApplyMeta(ctx, snapshotio.Encode(&raftlogv1.MetaCommand{Change: &raftlogv1.MetaCommand_ChangeMembers{ChangeMembers: c}}))
	if err != nil {
		return nil, err
	}
	r, ok := res.(control.MembersResult)
	if !ok {
		return nil, errors.New("membership: unexpected answer from the log")
	}
	return r.Table, r.Err
}

func (n memberNode) Announce() { n.announce() }

func (n memberNode) Arrange(v *membership.View) error {
	peers := maps.Clone(v.Nodes)
	delete(peers, n.cfg.Self)
	n.routes.setPeers(peers)
	err := n.net.SetPeers(peers)
	n.UseNodes(len(v.IDs))
	n.ranges.SetNodes(v.IDs)
	return err
}

func (n memberNode) Dropped(r quota.RangeID) {
	n.ranges.Of(r).Machine.Clear()
	n.Recorder.Forget(r)
}

// OpenMeta implements membership.Node.
func (n memberNode) OpenMeta(v *membership.View, found bool) error {
	others := slices.DeleteFunc(slices.Clone(v.IDs), func(id quota.NodeID) bool { return slices.Contains(v.Meta.Voters, id) })
	_, err := n.host.Open(raftgroup.GroupOptions{
		ID: raftgroup.MetaGroup, Voters: v.Meta.Voters, Nonvoters: others, Join: !found, FSM: n.meta, Commit: 100 * time.Millisecond,
		FirstEntry: func() []byte {
			return snapshotio.Encode(&raftlogv1.MetaCommand{Change: &raftlogv1.MetaCommand_TermStart{TermStart: n.termStart()}})
		},
		OnLeading: func(term uint64) {
			n.log.Info("leads the meta group", "term", term)
			n.announce()
		},
		OnFollowing: n.announce,
	})
	return err
}

// OpenRange implements membership.Node.
func (n memberNode) OpenRange(v *membership.View, r quota.RangeID, found bool) error {
	at := n.ranges.Of(r)
	_, err := n.host.Open(raftgroup.GroupOptions{
		ID: raftgroup.OfRange(r), Voters: v.Ranges[r].Voters, Join: !found, FSM: at.Machine,
		FirstEntry: func() []byte {
			return snapshotio.Encode(&raftlogv1.RangeCommand{Change: &raftlogv1.RangeCommand_TermStart{TermStart: n.termStart()}})
		},
		OnLeading:   func(term uint64) { at.Lead(quota.Term(term)) },
		OnFollowing: at.Follow,
		OnLeader: func(id quota.NodeID) {
			if id == "" && n.routes.forgetLeader(r, n.cfg.Self) {
				n.leadersLost([]quota.RangeID{r})
			}
		},
	})
	return err
}
