package transport

import (
	"sync"

	"github.com/quorate/quorate/internal/quota"
)

// eventQueue passes events from the links, which hold locks, to OnPeer, which may call back. It
// needs no bound, because a link makes at most two events per connection.
type eventQueue struct {
	wake chan struct{}
	mu   sync.Mutex
	list []peerEvent
}

type peerEvent struct {
	id quota.NodeID
	e  Event
}

// notify queues an event. It never blocks.
func (n *Net) notify(id quota.NodeID, e Event) {
	n.events.mu.Lock()
	n.events.list = append(n.events.list, peerEvent{id, e})
	n.events.mu.Unlock()
	select {
	case n.events.wake <- struct{}{}:
	default:
	}
}

// dispatch calls OnPeer, one event at a time, until the Net is closed.
func (n *Net) dispatch() {
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-n.events.wake:
		}
		n.events.mu.Lock()
		list := n.events.list
		n.events.list = nil
		n.events.mu.Unlock()
		for _, e := range list {
			if n.ctx.Err() != nil {
				return
			}
			n.log.Info("peer is "+e.e.String(), "peer", e.id)
			n.cfg.OnPeer(e.id, e.e)
		}
	}
}
