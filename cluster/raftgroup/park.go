package raftgroup

import (
	"time"

	"google.golang.org/protobuf/proto"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/quota"
)

// Bounds on what is kept for groups that are not open yet.
const (
	maxParked  = 1024
	parkedMax  = 64 << 10 // bytes of one of them
	parkedLife = 2 * time.Second
)

// parked is a message for a group that is not open yet.
type parked struct {
	from   quota.NodeID
	frame  *peerv1.Frame
	answer func(*peerv1.Frame)
	at     time.Time
}

// park keeps votes and the first entries for a group that may be opened in a
// moment: when a node starts, its peers are often faster than its disk, and
// whoever fails them makes them wait.
func (h *Host) park(from quota.NodeID, f *peerv1.Frame, answer func(*peerv1.Frame)) bool {
	switch m := f.GetRaft().GetMessage().(type) {
	case *peerv1.Raft_RequestVote, *peerv1.Raft_RequestPreVote:
	case *peerv1.Raft_AppendEntries:
		if len(m.AppendEntries.GetEntries()) == 0 || proto.Size(f) > parkedMax {
			return false
		}
	default:
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	id := f.GetRaft().GetGroup()
	if h.closing || h.gone[id] || h.groups[id] != nil {
		return false // the candidate asks again
	}
	now := time.Now()
	if h.expire(now) >= maxParked {
		return false
	}
	h.parked[id] = append(h.parked[id], parked{from, f, answer, now})
	return true
}

// expire forgets what has been parked for too long, with h.mu held, and returns
// how much is left. Nobody waits for an answer to the rest any more.
func (h *Host) expire(now time.Time) (left int) {
	for id, list := range h.parked {
		for len(list) > 0 && now.Sub(list[0].at) > parkedLife {
			list = list[1:]
		}
		h.parked[id] = list
		if left += len(list); len(list) == 0 {
			delete(h.parked, id)
		}
	}
	return left
}

// unpark gives a group what came before it was open.
func (h *Host) unpark(g *Group) {
	h.mu.Lock()
	list := h.parked[g.opts.ID]
	delete(h.parked, g.opts.ID)
	h.mu.Unlock()
	for _, p := range list {
		g.handle(p.from, p.frame.GetRaft(), p.answer)
	}
}

// unparkAll answers what no group will.
func (h *Host) unparkAll() {
	h.mu.Lock()
	all := h.parked
	h.parked = map[uint32][]parked{}
	h.mu.Unlock()
	for _, list := range all {
		for _, p := range list {
			p.answer(errorFrame("node is stopping"))
		}
	}
}
