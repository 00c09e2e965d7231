package cluster

import (
	"sync"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
)

// Reports and grants leave in the newest packed form that the peer has said it reads,
// and as messages for those of an earlier version.

// unpackRoom is room for reports that came, one for each goroutine that reads some.
var unpackRoom = sync.Pool{New: func() any { return &peerproto.Reports{} }}

// answerRooms is room for answers, one for each goroutine that makes some.
var answerRooms = sync.Pool{New: func() any { return &answerRoom{} }}

// answerRoom is room for the entries of all answers to one message.
type answerRoom struct{ entries []quota.GrantEntry }

// take returns room for n entries, until the next reset.
func (r *answerRoom) take(n int) []quota.GrantEntry {
	from := len(r.entries)
	if cap(r.entries)-from < n { // what has been taken stays where it is
		r.entries, from = make([]quota.GrantEntry, 0, max(n, min(2*cap(r.entries), peerproto.MaxPacked))), 0
	}
	r.entries = r.entries[:from+n]
	return r.entries[from : from : from+n]
}

func (r *answerRoom) reset() { r.entries = r.entries[:0] }

// packedForm is what this node tells its peers that it reads.
func (c *Config) packedForm() uint32 { return peerproto.PackedForm - c.earlier }

// formOf is the newest packed form that both this node and the peer know; 0 is none.
func (n *Node) formOf(to quota.NodeID) uint32 {
	return min(n.net.PackedOf(to), peerproto.PackedForm)
}

// packRoom is memory for packed messages: a frame that is sent is a copy.
var packRoom = sync.Pool{New: func() any { return new([]byte) }}

func (n *Node) sendReportsFrame(to quota.NodeID, list []*quota.Report) {
	if n.formOf(to) > 0 {
		room := packRoom.Get().(*[]byte)
		*room = peerproto.PackReports((*room)[:0], list)
		n.sendFrame(to, &peerv1.Frame{Body: &peerv1.Frame_PackedReports{PackedReports: *room}})
		packRoom.Put(room)
		return
	}
	msg := &peerv1.Reports{Reports: make([]*peerv1.Report, len(list))}
	for i, r := range list {
		msg.Reports[i] = peerproto.EncodeReport(r)
	}
	n.sendFrame(to, &peerv1.Frame{Body: &peerv1.Frame_Reports{Reports: msg}})
}

func (n *Node) sendGrantsFrame(to quota.NodeID, list []*quota.Grant) {
	if form := n.formOf(to); form > 0 {
		room := packRoom.Get().(*[]byte)
		*room = peerproto.PackGrants((*room)[:0], form, list)
		n.sendFrame(to, &peerv1.Frame{Body: &peerv1.Frame_PackedGrants{PackedGrants: *room}})
		packRoom.Put(room)
		return
	}
	msg := &peerv1.Grants{Grants: make([]*peerv1.Grant, len(list))}
	for i, g := range list {
		msg.Grants[i] = peerproto.EncodeGrant(g)
	}
	n.sendFrame(to, &peerv1.Frame{Body: &peerv1.Frame_Grants{Grants: msg}})
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
