package raftgroup

import (
	"errors"
	"io"

	"github.com/hashicorp/raft"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/quota"
)

// request is a peer's request with its answer callback.
type request struct {
	command any
	answer  func(*peerv1.Frame)
}

// Error texts for a group without a working replica on this node.
const (
	noGroup      = "no such group here"
	stoppedGroup = "group is stopped"
)

// errStopped is returned to a peer whose request arrives while the group stops.
var errStopped = errors.New(stoppedGroup)

func errorFrame(text string) *peerv1.Frame { return &peerv1.Frame{Error: text} }

// HandleFrame passes a Raft message to its group, which answers it now or later. It does not
// block.
func (h *Host) HandleFrame(from quota.NodeID, f *peerv1.Frame, answer func(*peerv1.Frame)) {
	m := f.GetRaft()
	if m == nil {
		answer(errorFrame("not a raft message"))
		return
	}
	g := h.Group(m.GetGroup())
	if g == nil {
		if !h.park(from, f, answer) {
			answer(errorFrame(noGroup))
		}
		return
	}
	g.handle(from, m, answer)
}

func (g *Group) handle(from quota.NodeID, m *peerv1.Raft, answer func(*peerv1.Frame)) {
	command, err := commandIn(m)
	if err != nil {
		answer(errorFrame(err.Error()))
		return
	}
	if id := senderOf(command); id != string(from) {
		answer(errorFrame("raft message of " + id + " on a connection of " + string(from)))
		return
	}
	i := g.cur.Load()
	if i == nil {
		answer(errorFrame(stoppedGroup))
		return
	}
	if i.answerHeartbeat(command, answer) {
		return
	}
	select {
	case i.queue <- request{command, answer}:
	default:
		answer(errorFrame("busy"))
	}
}

func senderOf(command any) string {
	if c, ok := command.(raft.WithRPCHeader); ok {
		return string(c.GetRPCHeader().ID)
	}
	return ""
}

// answerHeartbeat answers a heartbeat of the current term in place, because that touches no disk.
// It returns false for any other message, which must go through raft's own loop.
func (i *instance) answerHeartbeat(command any, answer func(*peerv1.Frame)) bool {
	a, ok := command.(*raft.AppendEntriesRequest)
	handler := i.trans.onHeartbeat.Load()
	if !ok || handler == nil || !isHeartbeat(a) || a.Term != i.raft.CurrentTerm() || i.raft.State() != raft.Follower {
		return false
	}
	reply := make(chan raft.RPCResponse, 1)
	(*handler)(raft.RPC{Command: a, RespChan: reply})
	select {
	case r := <-reply:
		i.reply(r, answer)
	default: // shutting down
		answer(errorFrame(stoppedGroup))
	}
	return true
}

// pump passes queued requests to raft, one at a time.
func (i *instance) pump() {
	for {
		select {
		case r := <-i.queue:
			i.reply(i.ask(r.command, nil), r.answer)
		case <-i.trans.ctx.Done():
			for len(i.queue) > 0 {
				(<-i.queue).answer(errorFrame(stoppedGroup))
			}
			return
		}
	}
}

// ask passes one request to raft and returns the response.
func (i *instance) ask(command any, body io.Reader) raft.RPCResponse {
	reply := make(chan raft.RPCResponse, 1)
	select {
	case i.trans.in <- raft.RPC{Command: command, Reader: body, RespChan: reply}:
	case <-i.trans.ctx.Done():
		return raft.RPCResponse{Error: errStopped}
	}
	select {
	case r := <-reply:
		return r
	case <-i.ended:
		return raft.RPCResponse{Error: errStopped}
	}
}

func (i *instance) reply(r raft.RPCResponse, answer func(*peerv1.Frame)) {
	switch {
	case r.Error != nil:
		answer(errorFrame(r.Error.Error()))
		return
	case i.disk.failed.Load(): // checked after raft answered: the answer may rest on a failed write
		answer(errorFrame(stoppedGroup))
		return
	}
	answer(resultOut(i.group.opts.ID, r.Response))
}

// HandleSnapshot installs a snapshot that a leader sends, and returns when raft has answered.
func (h *Host) HandleSnapshot(from quota.NodeID, header *peerv1.Frame, body io.Reader) *peerv1.Frame {
	m := header.GetRaft()
	g := h.Group(m.GetGroup())
	if m == nil || g == nil {
		return errorFrame(noGroup)
	}
	command, err := commandIn(m)
	if err != nil {
		return errorFrame(err.Error())
	}
	i := g.cur.Load()
	if s, ok := command.(*raft.InstallSnapshotRequest); !ok || i == nil || string(s.ID) != string(from) {
		return errorFrame("not a snapshot for this group, or the group is stopped")
	}
	var out *peerv1.Frame
	i.reply(i.ask(command, body), func(f *peerv1.Frame) { out = f })
	return out
}
