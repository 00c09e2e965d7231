package membership

import (
	"fmt"
	"strings"
	"time"

	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/internal/quota"
)

// A node that was a member and comes back without its data must not take part: it
// has forgotten for whom it voted and what it promised to keep, and with other such
// nodes it would begin a second history beside the first. So data have a name, the
// incarnation of the first process that had them. The membership knows that of each
// member, and whoever comes with another one is refused.
//
// A node that the settings name, and that has no data, would make groups. It makes
// none until it has asked the others.

// LostData begins the refusal of a node that has lost its data.
const LostData = "data: "

// foundAfter is how long a node without data waits for the rest, once a majority is
// here and has nothing against it. Whoever is up answers within milliseconds.
const foundAfter = time.Second

// Lost says what is wrong with a node that comes with data of that first life; "" if
// nothing is, or if nobody can tell.
func (s *Service) Lost(id quota.NodeID, first quota.Incarnation) string {
	m := s.View().Member(id)
	switch {
	case m == nil || first == 0 || m.First == first:
		return ""
	case m.First == 0 && !m.Joined.IsZero():
		return "" // it has joined just now
	}
	return fmt.Sprintf(LostData+"node %q was a member with data and comes back without: remove it and join it under a new name", id)
}

// firstOf is the first life with the data of a node, as it said.
func (s *Service) firstOf(id quota.NodeID) quota.Incarnation {
	if id == s.cfg.Self {
		return s.cfg.First
	}
	return s.node.Net().FirstIncarnationOf(id)
}

// founds says whether groups that are not there yet are made here: by the nodes
// that the settings name, before there is a membership. v is the view in which
// their opening began: with a slow disk there is a membership before the last is
// open, and nobody else would make it.
func (s *Service) founds(v *View) bool { return !s.stored && !s.cfg.Join && !v.Table.Seeded() }

// unsure says whether this node has to ask others before it makes groups.
func (s *Service) unsure(v *View) bool {
	return s.founds(v) && s.cfg.First == s.cfg.Incarnation && len(v.IDs) > 1
}

// found asks the others, and makes the groups when nobody knows this node from
// before: as soon as all are here, or a majority has been for a while. False if it
// may not.
func (s *Service) found(v *View) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	var since time.Time // a majority has been here
	for {
		select {
		case <-s.stop:
			return false
		case <-tick.C:
		}
		if why := s.refusedBy(v); why != "" {
			s.log.Error("this node takes no part in the cluster", "why", why)
			s.barred.Store(&why)
			return false
		}
		switch here := s.here(v); {
		case 2*here <= len(v.IDs):
			since = time.Time{}
		case here == len(v.IDs) || !since.IsZero() && time.Since(since) >= foundAfter:
			return s.openFirst(v)
		case since.IsZero():
			since = time.Now()
		}
	}
}

// openFirst opens the groups, again until that works: a disk may be full for a while.
func (s *Service) openFirst(v *View) bool {
	for {
		err := error(nil)
		if s.node.Host().Group(raftgroup.MetaGroup) == nil {
			err = s.node.OpenMeta(v, s.founds(v))
		}
		if err == nil {
			err = s.OpenMissing(v)
		}
		if err == nil {
			s.setPreferred(v)
			return true
		}
		select {
		case <-s.stop:
			return false
		case <-time.After(retryAfter):
			s.log.Error("groups not opened", "err", err)
		}
	}
}

// refusedBy is what a node says that knows this one from before.
func (s *Service) refusedBy(v *View) string {
	for _, id := range v.IDs {
		if text := s.node.Net().Refusal(id); strings.HasPrefix(text, LostData) {
			return fmt.Sprintf("node %s says: %s", id, strings.TrimPrefix(text, LostData))
		}
	}
	return ""
}

// here counts the nodes that are connected, and this one.
func (s *Service) here(v *View) (count int) {
	for _, id := range v.IDs {
		if id == s.cfg.Self || s.node.Net().Connected(id) {
			count++
		}
	}
	return count
}

// RemovedAfter is for how long most others have to say that they do not know this node
// until it believes that it was removed while it did not run. Who has just joined is
// unknown for as long as the others take to hear of it.
const RemovedAfter = 30 * time.Second

// watchRemoval says that this node is out of the cluster when most of the others do not know
// it any more: it was removed, or has left, and was started again with its data. From the
// log it cannot learn that, since nobody lets it in.
func (s *Service) watchRemoval() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var since time.Time
	for {
		select {
		case <-s.stop:
			return
		case now := <-tick.C:
			switch {
			case !s.unknown():
				since = time.Time{}
			case since.IsZero():
				since = now
			case now.Sub(since) >= RemovedAfter:
				s.leave("the others do not know it: it was removed, or has left; to join again, empty its data directory")
				return
			}
		}
	}
}

// unknown reports whether more than half of the others say that they do not know this node.
func (s *Service) unknown() bool {
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
