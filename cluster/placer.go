package cluster

import (
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
	"github.com/quorate/quorate/shard"
)

// settleAgain is the pause before what did not work is tried again.
const settleAgain = 500 * time.Millisecond

// rearrange asks the placer to make this node what the view says.
func (n *Node) rearrange() {
	select {
	case n.unsettled <- struct{}{}:
	default:
	}
}

// placer makes this node what the view says: whom it is connected to, and which
// groups are open here.
func (n *Node) placer() {
	defer n.done.Done()
	if v := n.view.Load(); n.unsure(v) && !n.found(v) {
		return
	}
	for {
		select {
		case <-n.stop:
			return
		case <-n.unsettled:
		}
		if err := n.place(n.view.Load()); err != nil {
			if !errors.Is(err, raftgroup.ErrClosed) { // the node stops; what else is wrong is said at the next try
				n.log.Warn("replicas of this node do not follow the placement yet", "err", err)
			}
			time.AfterFunc(settleAgain, n.rearrange)
		}
	}
}

// place carries a view out. What it undoes it undoes last, and only when the
// view is certainly the newest.
func (n *Node) place(v *view) error {
	errs := []error{n.connect(v), n.saveView(v), n.openMissing(v)}
	n.prefer(v)
	if n.surplus(v) > 0 {
		errs = append(errs, n.dropSurplus())
	}
	return errors.Join(errs...)
}

// connect tells everybody inside who is in the cluster.
func (n *Node) connect(v *view) error {
	peers := maps.Clone(v.nodes)
	delete(peers, n.cfg.Self)
	n.routes.setPeers(peers)
	err := n.net.SetPeers(peers)
	n.post(func(quota.Time) { n.agg.SetNodes(len(v.ids)) })
	for _, s := range n.seats {
		s.with(func(l *leader.Ledger, _ quota.Time) { l.SetNodes(len(v.ids)) })
	}
	return err
}

// openMissing opens the groups that should have a replica here, a few at a time:
// most of it is waiting for the disk. Callers wait for each other: a group is made
// once.
func (n *Node) openMissing(v *view) error {
	n.opening.Lock()
	defer n.opening.Unlock()
	var mu sync.Mutex
	var errs []error
	var wg sync.WaitGroup
	slots := make(chan struct{}, 8)
	for r := range n.cfg.Ranges {
		s := n.seats[quota.RangeID(r)]
		if !names(v.ranges[r], n.cfg.Self) || n.host.Group(group(s.id)) != nil {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := n.openRange(s, v); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// prefer tells the groups who should lead them.
func (n *Node) prefer(v *view) {
	shunned := map[quota.NodeID]bool{}
	for _, id := range v.ids {
		if m := v.member(id); m != nil && m.Node().State != shard.Active {
			shunned[id] = true
		}
	}
	n.host.SetShunned(shunned)
	for r := range v.ranges {
		if g := n.host.Group(group(quota.RangeID(r))); g != nil {
			g.SetPreferred(preferred(v.ranges[r], shunned))
		}
	}
	if g := n.host.Group(metaGroup); g != nil {
		g.SetPreferred(preferred(v.meta, shunned))
	}
}

// preferred is the first voter that may lead; nobody, if none may.
func preferred(p shard.Placement, shunned map[quota.NodeID]bool) quota.NodeID {
	for _, id := range p.Voters {
		if !shunned[id] {
			return id
		}
	}
	return ""
}

// surplus counts the groups that are open here and should not be.
func (n *Node) surplus(v *view) (count int) {
	for r := range v.ranges {
		if n.host.Group(group(quota.RangeID(r))) != nil && !names(v.ranges[r], n.cfg.Self) {
			count++
		}
	}
	return count
}

// dropSurplus deletes replicas that this node is not to have. A node that starts
// replays old placements: only one that has all that is committed knows.
func (n *Node) dropSurplus() error {
	v := n.view.Load()
	if !n.routes.hasMembers(v.table.Revision()) {
		time.AfterFunc(settleAgain, n.rearrange)
		return nil
	}
	var errs []error
	for r := range v.ranges {
		s := n.seats[quota.RangeID(r)]
		if n.host.Group(group(s.id)) == nil || names(v.ranges[r], n.cfg.Self) {
			continue
		}
		if err := n.host.DropGroup(group(s.id)); err != nil {
			errs = append(errs, err)
			continue
		}
		s.fsm.clear()
		n.Recorder.Forget(s.id)
		n.log.Info("replica removed from this node", "range", s.id)
	}
	return errors.Join(errs...)
}
