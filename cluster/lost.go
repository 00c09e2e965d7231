package cluster

import (
	"fmt"
	"strings"
	"time"

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

// lostData begins the refusal of a node that has lost its data.
const lostData = "data: "

// foundAfter is how long a node without data waits for the rest, once a majority is
// here and has nothing against it. Whoever is up answers within milliseconds.
const foundAfter = time.Second

// lost says what is wrong with a node that comes with data of that first life; "" if
// nothing is, or if nobody can tell.
func (n *Node) lost(id quota.NodeID, first quota.Incarnation) string {
	m := n.view.Load().member(id)
	switch {
	case m == nil || first == 0 || m.First == first:
		return ""
	case m.First == 0 && !m.Joined.IsZero():
		return "" // it has joined just now
	}
	return fmt.Sprintf(lostData+"node %q was a member with data and comes back without: remove it and join it under a new name", id)
}

// firstOf is the first life with the data of a node, as it said.
func (n *Node) firstOf(id quota.NodeID) quota.Incarnation {
	if id == n.cfg.Self {
		return n.first
	}
	return n.net.FirstOf(id)
}

// unsure says whether this node has to ask others before it makes groups.
func (n *Node) unsure(v *view) bool { return n.founds(v) && n.first == n.inc && len(v.ids) > 1 }

// found asks the others, and makes the groups when nobody knows this node from
// before: as soon as all are here, or a majority has been for a while. False if it
// may not.
func (n *Node) found(v *view) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	var since time.Time // a majority has been here
	for {
		select {
		case <-n.stop:
			return false
		case <-tick.C:
		}
		if why := n.refusedBy(v); why != "" {
			n.log.Error("this node takes no part in the cluster", "why", why)
			n.barred.Store(&why)
			return false
		}
		switch here := n.here(v); {
		case 2*here <= len(v.ids):
			since = time.Time{}
		case here == len(v.ids) || !since.IsZero() && time.Since(since) >= foundAfter:
			return n.openFirst(v)
		case since.IsZero():
			since = time.Now()
		}
	}
}

// openFirst opens the groups, again until that works: a disk may be full for a while.
func (n *Node) openFirst(v *view) bool {
	for {
		err := error(nil)
		if n.host.Group(metaGroup) == nil {
			err = n.openMeta(v)
		}
		if err == nil {
			err = n.openMissing(v)
		}
		if err == nil {
			n.prefer(v)
			return true
		}
		select {
		case <-n.stop:
			return false
		case <-time.After(settleAgain):
			n.log.Error("groups not opened", "err", err)
		}
	}
}

// refusedBy is what a node says that knows this one from before.
func (n *Node) refusedBy(v *view) string {
	for _, id := range v.ids {
		if text := n.net.Refusal(id); strings.HasPrefix(text, lostData) {
			return fmt.Sprintf("node %s says: %s", id, strings.TrimPrefix(text, lostData))
		}
	}
	return ""
}

// here counts the nodes that are connected, and this one.
func (n *Node) here(v *view) (count int) {
	for _, id := range v.ids {
		if id == n.cfg.Self || n.net.Connected(id) {
			count++
		}
	}
	return count
}
