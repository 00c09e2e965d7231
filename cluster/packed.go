package cluster

import (
	"sync"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
)

// Reports and grants leave in the packed form for peers that have said that they read
// it, and as messages for those of an earlier version.

// unpackRoom is room for reports that came, one for each goroutine that reads some.
var unpackRoom = sync.Pool{New: func() any { return &peerproto.Reports{} }}

// packedForm is what this node tells its peers that it reads.
func (c *Config) packedForm() uint32 {
	if c.unpacked {
		return 0
	}
	return peerproto.PackedForm
}

func (n *Node) packs(to quota.NodeID) bool { return n.net.PackedOf(to) >= peerproto.PackedForm }

func (n *Node) reportsFrame(to quota.NodeID, list []*quota.Report) *peerv1.Frame {
	if n.packs(to) {
		return &peerv1.Frame{Body: &peerv1.Frame_PackedReports{PackedReports: peerproto.PackReports(nil, list)}}
	}
	msg := &peerv1.Reports{Reports: make([]*peerv1.Report, len(list))}
	for i, r := range list {
		msg.Reports[i] = peerproto.EncodeReport(r)
	}
	return &peerv1.Frame{Body: &peerv1.Frame_Reports{Reports: msg}}
}

func (n *Node) grantsFrame(to quota.NodeID, list []*quota.Grant) *peerv1.Frame {
	if n.packs(to) {
		return &peerv1.Frame{Body: &peerv1.Frame_PackedGrants{PackedGrants: peerproto.PackGrants(nil, list)}}
	}
	msg := &peerv1.Grants{Grants: make([]*peerv1.Grant, len(list))}
	for i, g := range list {
		msg.Grants[i] = peerproto.EncodeGrant(g)
	}
	return &peerv1.Frame{Body: &peerv1.Frame_Grants{Grants: msg}}
}

// onPackedReports is onReports for the packed form.
func (n *Node) onPackedReports(from quota.NodeID, data []byte) {
	room := unpackRoom.Get().(*peerproto.Reports)
	defer unpackRoom.Put(room)
	reports, err := room.Unpack(from, data)
	if err != nil {
		n.stats.refusedReports.Inc()
		n.log.Debug("reports not read", "peer", from, "err", err)
		return
	}
	out := make([]*quota.Grant, 0, len(reports))
	for i := range reports {
		out = n.bookFor(&reports[i], out)
	}
	n.answerReports(from, out)
}

// onPackedGrants is onGrants for the packed form.
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
