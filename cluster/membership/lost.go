package membership

import (
	"fmt"
	"strings"
	"time"

	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/internal/backoff"
	"github.com/quorate/quorate/internal/quota"
)

// A member that comes back without its data must not take part: it
// has forgotten its votes and the entries that it acknowledged, and several such
// nodes could start a second history beside the first. So data have an identity, the
// incarnation of the first process that used them. The membership records the identity of each
// member's data, and the others refuse a node that comes back with another identity.
//
// A node that the settings name and that has no data would create groups. It creates
// none until it has asked the others.

// LostData is the prefix of the refusal of a node that has lost its data.
const LostData = "data: "

// createAfter is how long a node without data waits for the remaining nodes once a majority is
// connected and has not refused it. Nodes that are up answer within milliseconds.
const createAfter = time.Second

// Lost returns the refusal of a node whose data have the identity first, if the membership
// has another identity for it, or none although it never joined. It returns "" if the identities
// match, if first is 0, or if the node is unknown or has just joined.
func (s *Service) Lost(id quota.NodeID, first quota.Incarnation) string {
	m := s.View().Member(id)
	switch {
	case m == nil || first == 0 || m.First == first:
		return ""
	case m.First == 0 && !m.Joined.IsZero():
		return "" // it has just joined
	}
	return fmt.Sprintf(LostData+"node %q was a member with data and has returned without it: remove it and join it under a new name", id)
}

// mayCreateGroups reports whether this node creates missing groups: the nodes that the settings name do so
// before there is a membership. v must be the view with which opening the groups began: with a slow
// disk, the membership may exist before the last group is open, and no other node would create it.
func (s *Service) mayCreateGroups(v *View) bool { return !s.stored && !s.cfg.Join && !v.Table.Seeded() }

// mustAskOthers reports whether this node has to ask the others before it creates groups.
func (s *Service) mustAskOthers(v *View) bool {
	return s.mayCreateGroups(v) && s.cfg.First == s.cfg.Incarnation && len(v.IDs) > 1
}

// createGroups creates the groups if no other node knows this one from before: as soon as all nodes are
// connected, or a majority has been for createAfter. It returns false if this node is refused
// or stops.
func (s *Service) createGroups(v *View) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	var since time.Time // when a majority was first connected; zero if there is no majority
	for {
		select {
		case <-s.ctx.Done():
			return false
		case <-tick.C:
		}
		if why := s.refusedBy(v); why != "" {
			s.log.Error("this node takes no part in the cluster", "why", why)
			s.refused.Store(&why)
			return false
		}
		switch here := s.connectedCount(v); {
		case 2*here <= len(v.IDs):
			since = time.Time{}
		case here == len(v.IDs) || !since.IsZero() && time.Since(since) >= createAfter:
			return s.openGroups(v)
		case since.IsZero():
			since = time.Now()
		}
	}
}

// openGroups opens the groups and retries until it succeeds: a disk may be full for a while.
// It returns false if the service stops.
func (s *Service) openGroups(v *View) bool {
	for {
		err := error(nil)
		if s.node.Host().Group(raftgroup.MetaGroup) == nil {
			err = s.node.OpenMeta(v, s.mayCreateGroups(v))
		}
		if err == nil {
			err = s.OpenMissing(v)
		}
		if err == nil {
			s.setPreferred(v)
			return true
		}
		if backoff.Sleep(s.ctx, retryAfter) != nil {
			return false
		}
		s.log.Error("groups not opened", "err", err)
	}
}

// refusedBy returns the refusal of a node that knows this one from before; "" if no node does.
func (s *Service) refusedBy(v *View) string {
	for _, id := range v.IDs {
		if text := s.node.Net().Refusal(id); strings.HasPrefix(text, LostData) {
			return fmt.Sprintf("node %s says: %s", id, strings.TrimPrefix(text, LostData))
		}
	}
	return ""
}

// connectedCount counts the connected nodes and this one.
func (s *Service) connectedCount(v *View) (count int) {
	for _, id := range v.IDs {
		if id == s.cfg.Self || s.node.Net().Connected(id) {
			count++
		}
	}
	return count
}

// RemovedAfter is how long most others must not know this node before it concludes that
// it was removed while it was down. A node that has just joined is unknown to the others until
// they hear of it.
const RemovedAfter = 30 * time.Second

// watchRemoval marks this node as out of the cluster when most of the others no longer know
// it: it left or was removed, and was started again with its data. It cannot learn that from the
// log, because the others refuse its connections.
func (s *Service) watchRemoval() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var since time.Time
	for {
		select {
		case <-s.ctx.Done():
			return
		case now := <-tick.C:
			switch {
			case !s.unknownToMost():
				since = time.Time{}
			case since.IsZero():
				since = now
			case now.Sub(since) >= RemovedAfter:
				s.leave("the other nodes do not know it: it was removed, or has left; to join again, empty its data directory")
				return
			}
		}
	}
}

// unknownToMost reports whether more than half of the others refuse this node as an unknown sender.
func (s *Service) unknownToMost() bool {
	others, unknown := 0, 0
	for _, id := range s.View().IDs {
		if id == s.cfg.Self {
			continue
		}
		others++
		if !s.node.Net().Connected(id) && transport.UnknownSender(s.node.Net().Refusal(id)) {
			unknown++
		}
	}
	return 2*unknown > others
}
