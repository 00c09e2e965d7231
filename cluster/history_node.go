package cluster

import (
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
	}, historyNode{slow{part{n}}})
}

// historyNode adapts Node to recorder.Node.
type historyNode struct{ slow }

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

func (n historyNode) Voters(r quota.RangeID) []quota.NodeID { return n.members.View().Ranges[r].Voters }

func (n historyNode) Peers() (out []history.Process) {
	for _, id := range n.routes.upNodes() {
		if inc := n.net.IncarnationOf(id); inc != 0 {
			out = append(out, history.Process{Node: id, Incarnation: inc})
		}
	}
	return out
}

func (n historyNode) Tally(all bool, add func(l quota.LimitName, admitted, refused quota.Units)) {
	if all {
		n.Aggregator().TallyAll(add)
	} else {
		n.Aggregator().Tally(add)
	}
	n.accounts.Tally(add)
}
