package cluster

import (
	"context"
	"errors"
	"io"

	"github.com/quorate/quorate/cluster/backup"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/quota"
)

func (n *Node) newBackups() *backup.Service {
	return backup.New(backup.Config{
		Cluster: n.cfg.Cluster, Self: n.cfg.Self, Version: n.cfg.Version, Ranges: n.cfg.Ranges, Accounts: n.accounts, Log: n.log,
	}, backupNode{slow{part{n}}})
}

// Backup writes the durable state of the cluster to w; see backup.Service.Take.
func (n *Node) Backup(ctx context.Context, w io.Writer, progress func(done, total int)) error {
	return n.backups.Take(ctx, w, progress)
}

// backupNode adapts Node to backup.Node.
type backupNode struct{ slow }

// Host implements backup.Node.
func (n backupNode) Host() *raftgroup.Host { return n.host }

func (n backupNode) Leader(group uint32) quota.NodeID { return n.members.LeaderOf(group) }

func (n backupNode) Level() uint32 { return n.members.View().Table.Level() }

func (n backupNode) Checkpoint(ctx context.Context, r quota.RangeID) {
	n.ranges.Of(r).Checkpoint(ctx)
}

func (n backupNode) Snapshot(group uint32) (func(io.Writer) error, error) {
	if group == raftgroup.MetaGroup {
		return n.meta.Snapshot()
	}
	if r := n.ranges.Of(raftgroup.RangeOf(group)); r != nil {
		return r.Machine.Snapshot()
	}
	return nil, errors.New("unknown range")
}
