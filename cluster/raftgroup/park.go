package raftgroup

import (
	"time"

	"google.golang.org/protobuf/proto"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/quota"
)

// Bounds of the messages kept for groups that are not open yet.
const (
	maxParked  = 1024
	parkedMax  = 64 << 10 // maximum size of one message in bytes
	parkedLife = 2 * time.Second
)

// parked is a message for a group that is not open yet.
type parked struct {
	from   quota.NodeID
	frame  *peerv1.Frame
	answer func(*peerv1.Frame)
	at     time.Time
}

// park keeps vote requests and first entries for a group that may open in a moment, and reports
// whether it did. When a node starts, its peers are often faster than its disk, and a failed
// request would make the sender wait before retrying.
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
		return false // the sender retries
	}
	now := time.Now()
	if h.expire(now) >= maxParked {
		return false
	}
	h.parked[id] = append(h.parked[id], parked{from, f, answer, now})
	return true
}

// expire drops messages that have been parked too long and returns how many remain. Their senders
// no longer wait for an answer. The caller holds h.mu.
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

// unpark passes a group the messages that arrived before it was open.
func (h *Host) unpark(g *Group) {
	h.mu.Lock()
	list := h.parked[g.opts.ID]
	delete(h.parked, g.opts.ID)
	h.mu.Unlock()
	for _, p := range list {
		g.handle(p.from, p.frame.GetRaft(), p.answer)
	}
}

// unparkAll answers all parked messages with an error, because the node is stopping.
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
