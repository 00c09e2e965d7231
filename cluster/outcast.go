package cluster

import (
	"time"

	"github.com/quorate/quorate/cluster/transport"
)

// outcastAfter is for how long most others have to say that they do not know this node
// until it believes that it was removed while it did not run. Who has just joined is
// unknown for as long as the others take to hear of it.
const outcastAfter = 30 * time.Second

// watchOut says that this node is out of the cluster when most of the others do not know
// it any more: it was removed, or has left, and was started again with its data. From the
// log it cannot learn that, since nobody lets it in.
func (n *Node) watchOut() {
	defer n.done.Done()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var since time.Time
	for {
		select {
		case <-n.stop:
			return
		case now := <-tick.C:
			switch {
			case !n.unknown():
				since = time.Time{}
			case since.IsZero():
				since = now
			case now.Sub(since) >= outcastAfter:
				n.gone("the others do not know it: it was removed, or has left; to join again, empty its data directory")
				return
			}
		}
	}
}

// unknown reports whether more than half of the others say that they do not know this node.
func (n *Node) unknown() bool {
	others, strangers := 0, 0
	for _, id := range n.view.Load().ids {
		if id == n.cfg.Self {
			continue
		}
		others++
		if !n.net.Connected(id) && transport.Stranger(n.net.Refusal(id)) {
			strangers++
		}
	}
	return 2*strangers > others
}
