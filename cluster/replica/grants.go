package replica

import (
	"sync"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
)

// deliver gives grants that answer no report to their members.
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
		s.sendGrants(to, list) // where one is lost the member reports that it holds too little
	}
}

// packRoom is memory for packed messages: a frame that is sent is a copy.
var packRoom = sync.Pool{New: func() any { return new([]byte) }}

// sendGrants sends grants to a member, as many in a frame as it takes.
func (s *Set) sendGrants(to quota.NodeID, list []*quota.Grant) {
	peerproto.InFrames(list, func(g *quota.Grant) int { return len(g.Entries) }, func(part []*quota.Grant) {
		room := packRoom.Get().(*[]byte)
		*room = peerproto.PackGrants((*room)[:0], part)
		s.node.Send(to, &peerv1.Frame{Body: &peerv1.Frame_PackedGrants{PackedGrants: *room}})
		packRoom.Put(room)
	})
}
