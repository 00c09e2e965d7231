package membership

import (
	"errors"
	"sync"
	"time"

	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/shard"
)

// retryAfter is the pause before the reconciler retries.
const retryAfter = 500 * time.Millisecond

// wakeReconciler makes the reconciler apply the view. It does not block.
func (s *Service) wakeReconciler() {
	select {
	case s.reconcile <- struct{}{}:
	default:
	}
}

// reconcileAll applies the view to this node whenever it changes, until the service stops: it connects
// to the peers in the view and opens the groups that the view places on this node.
func (s *Service) reconcileAll() {
	if v := s.View(); s.mustAskOthers(v) && !s.createGroups(v) {
		return
	}
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.reconcile:
		}
		v := s.View()
		errs := []error{s.node.Arrange(v), s.saveView(v), s.OpenMissing(v)}
		s.setPreferred(v)
		if len(s.surplus(v)) > 0 { // last, and only if the view is certainly the newest
			errs = append(errs, s.dropSurplus())
		}
		if err := errors.Join(errs...); err != nil {
			if !errors.Is(err, raftgroup.ErrClosed) { // the node is stopping; the next try logs other errors
				s.log.Warn("replicas of this node do not match the placement yet", "err", err)
			}
			time.AfterFunc(retryAfter, s.wakeReconciler)
		}
	}
}

// OpenMissing opens the groups that should have a replica here, up to 8 at a time, since
// opening mostly waits for the disk. It holds s.opening, so that concurrent calls create a group
// only once.
func (s *Service) OpenMissing(v *View) error {
	s.opening.Lock()
	defer s.opening.Unlock()
	var mu sync.Mutex
	var errs []error
	var wg sync.WaitGroup
	slots := make(chan struct{}, 8)
	for r := range s.cfg.Ranges {
		id := quota.RangeID(r)
		if !Names(v.Ranges[r], s.cfg.Self) || s.node.Host().Group(raftgroup.OfRange(id)) != nil {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := s.node.OpenRange(v, id, s.mayCreateGroups(v)); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// setPreferred sets the preferred leader of each group, and the nodes excluded from leading.
func (s *Service) setPreferred(v *View) {
	excluded := map[quota.NodeID]bool{}
	for _, id := range v.IDs {
		if m := v.Member(id); m != nil && m.Node().State != shard.Active {
			excluded[id] = true
		}
	}
	s.node.Host().SetExcluded(excluded)
	for r := range v.Ranges {
		if g := s.node.Host().Group(raftgroup.OfRange(quota.RangeID(r))); g != nil {
			g.SetPreferred(preferred(v.Ranges[r], excluded))
		}
	}
	if g := s.node.Host().Group(raftgroup.MetaGroup); g != nil {
		g.SetPreferred(preferred(v.Meta, excluded))
	}
}

// preferred returns the first voter that may lead; "" if none may.
func preferred(p shard.Placement, excluded map[quota.NodeID]bool) quota.NodeID {
	for _, id := range p.Voters {
		if !excluded[id] {
			return id
		}
	}
	return ""
}

// surplus returns the ranges of which this node has a replica, open or only on its disk, that the view does
// not place on it. A node that stopped before it could delete one does not open it again.
func (s *Service) surplus(v *View) (out []quota.RangeID) {
	for r := range v.Ranges {
		id := quota.RangeID(r)
		g, host := raftgroup.OfRange(id), s.node.Host()
		if !Names(v.Ranges[r], s.cfg.Self) && (host.Group(g) != nil || host.Keeps(g)) {
			out = append(out, id)
		}
	}
	return out
}

// dropSurplus deletes the replicas that the view does not place on this node. A node that starts
// replays old placements, so it deletes only when its table is as new as the meta leader's.
func (s *Service) dropSurplus() error {
	v := s.View()
	if !s.node.Newest(v.Table.Revision()) {
		time.AfterFunc(retryAfter, s.wakeReconciler)
		return nil
	}
	var errs []error
	for _, id := range s.surplus(v) {
		if err := s.node.Host().DropGroup(raftgroup.OfRange(id)); err != nil {
			errs = append(errs, err)
			continue
		}
		s.node.Dropped(id)
		s.log.Info("replica removed from this node", "range", id)
	}
	return errors.Join(errs...)
}
