package replica

import (
	"sync"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
)

// deliver sends grants that answer no report to their members.
func (s *Set) deliver(grants []quota.Grant) {
	frames := map[quota.NodeID][]*quota.Grant{}
	for i := range grants {
		g := &grants[i]
		if g.To == s.cfg.Self {
			s.node.Deliver(g, true)
			continue
		}
		frames[g.To] = append(frames[g.To], g)
	}
	for to, list := range frames {
		s.stats.grants.Add(float64(len(list)))
		s.sendGrants(to, list) // a member whose grant is lost reports that it holds too little
	}
}

// packRoom pools memory for packed messages. A frame copies what it sends.
var packRoom = sync.Pool{New: func() any { return new([]byte) }}

// sendGrants sends grants to a member, in as few frames as they fit in.
func (s *Set) sendGrants(to quota.NodeID, list []*quota.Grant) {
	peerproto.InFrames(list, func(g *quota.Grant) int { return len(g.Entries) }, func(part []*quota.Grant) {
		room := packRoom.Get().(*[]byte)
		*room = peerproto.PackGrants((*room)[:0], part)
		s.node.Send(to, &peerv1.Frame{Body: &peerv1.Frame_PackedGrants{PackedGrants: *room}})
		packRoom.Put(room)
	})
}
