package cluster

import (
	"context"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/cluster/recorder"
	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
)

func (n *Node) newHistory() *recorder.Recorder {
	return recorder.New(&recorder.Config{
		Self: history.Process{Node: n.cfg.Self, Incarnation: n.inc}, Ranges: n.cfg.Ranges, Dir: n.cfg.Dir, Keep: n.cfg.History,
		Log: n.log, Registry: n.cfg.Registry,
	}, historyNode{n})
}

// historyNode adapts Node to recorder.Node.
type historyNode struct{ *Node }

// Now implements recorder.Node.
func (n historyNode) Now() quota.Time { return n.clock.Now() }

func (n historyNode) Replica(r quota.RangeID) *recorder.Replica {
	if s := n.ranges.Of(r); s != nil {
		return s.Machine.History
	}
	return nil
}

func (n historyNode) Open(r quota.RangeID) bool {
	return n.host != nil && n.host.Group(raftgroup.OfRange(r)) != nil
}

func (n historyNode) WithLedger(r quota.RangeID, f func(l *leader.Ledger, now quota.Time)) {
	n.ranges.Of(r).With(f)
}

func (n historyNode) Propose(ctx context.Context, r quota.RangeID, entry []byte) error {
	return n.proposeRange(ctx, r, entry)
}

func (n historyNode) Leader(r quota.RangeID) quota.NodeID { return n.routes.leader(r) }

func (n historyNode) Voters(r quota.RangeID) []quota.NodeID { return n.members.View().Ranges[r].Voters }

func (n historyNode) Up(id quota.NodeID) bool { return n.routes.up(id) }

func (n historyNode) Peers() (out []history.Process) {
	for _, id := range n.routes.upNodes() {
		if life := n.net.IncarnationOf(id); life != 0 {
			out = append(out, history.Process{Node: id, Incarnation: life})
		}
	}
	return out
}

func (n historyNode) Call(ctx context.Context, to quota.NodeID, c *peerv1.Call) (*peerv1.Call, error) {
	return n.callSlow(ctx, to, c)
}

func (n historyNode) Tally(all bool, add func(l quota.LimitName, admitted, refused quota.Units)) {
	if all {
		n.Aggregator().TallyAll(add)
	} else {
		n.Aggregator().Tally(add)
	}
	n.accounts.Tally(add)
}
