package cluster

import (
	"sync"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
)

// packRoom is memory for packed messages: a frame that is sent is a copy.
var packRoom = sync.Pool{New: func() any { return new([]byte) }}

func (n *Node) sendReportsFrame(to quota.NodeID, list []*quota.Report) {
	room := packRoom.Get().(*[]byte)
	*room = peerproto.PackReports((*room)[:0], list)
	n.sendFrame(to, &peerv1.Frame{Body: &peerv1.Frame_PackedReports{PackedReports: *room}})
	packRoom.Put(room)
}

// onPackedGrants passes grants to the member loop.
func (n *Node) onPackedGrants(from quota.NodeID, data []byte) {
	n.toMember(func(now quota.Time) {
		grants, err := n.packed.Unpack(from, n.cfg.Self, data)
		if err != nil {
			n.stats.droppedGrants.Inc()
			n.log.Debug("grants not read", "peer", from, "err", err)
			return
		}
		for i := range grants {
			n.apply(now, &grants[i])
		}
	})
}
