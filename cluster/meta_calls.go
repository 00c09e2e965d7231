package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/cluster/multiraft"
	"github.com/quorate/quorate/internal/quota"
)

const (
	retryPause   = 50 * time.Millisecond
	spreadPause  = 5 * time.Millisecond
	spreadWait   = 2 * time.Second // for others to apply what is committed
	proposeLimit = 10 * time.Second
	stampSize    = 32 // bytes that the leader may add to a command
)

// proposal is one change of the meta group's state, and how it is passed on to
// the group's leader.
type proposal struct {
	command []byte
	call    func(command []byte) *peerv1.Call
	result  func(*peerv1.Call) any // out of the answer
	// made, unless it is nil, says that this node has applied the change: whoever
	// lost the answer need not send a large command again. The result is nil then.
	made func() bool
}

// newProposal returns an error if the command cannot be encoded or is too large
// for the log.
func newProposal(cmd *raftlogv1.MetaCommand) (proposal, error) {
	data, err := proto.Marshal(cmd)
	if err != nil {
		return proposal{}, err
	}
	if most := multiraft.MaxEntry - stampSize; len(data) > most {
		return proposal{}, fmt.Errorf("the change is %d bytes; at most %d", len(data), most)
	}
	return proposal{command: data}, nil
}

// propose repeats the proposal until the group has taken it. Without a leader
// for ten seconds or until ctx ends the error is a NoLeaderError; the change may
// be taken later nevertheless.
func (n *Node) propose(ctx context.Context, p proposal) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, proposeLimit)
	defer cancel()
	for {
		res, err := n.proposeOnce(ctx, p)
		if err == nil {
			return res, nil
		}
		if p.made != nil && p.made() {
			return nil, nil
		}
		select {
		case <-ctx.Done():
			return nil, &quota.NoLeaderError{Reason: fmt.Sprintf("the meta group did not take the change: %v", err)}
		case <-time.After(retryPause):
		}
	}
}

func (n *Node) proposeOnce(ctx context.Context, p proposal) (any, error) {
	if res, err := n.applyMeta(ctx, p.command); !errors.Is(err, multiraft.ErrNotLeader) {
		return res, err
	}
	to := n.routes.metaLeader()
	if to == "" || to == n.cfg.Self {
		return nil, errors.New("the meta group has no leader")
	}
	c, err := n.call(ctx, to, p.call(p.command))
	if err != nil {
		return nil, err
	}
	return p.result(c), nil
}

// applyMeta proposes the command here. The error is about the proposal; that
// of the change itself is in the result. An empty command is a question, and leaves
// nothing in the log: this node has applied all that was committed if there is no
// error.
func (n *Node) applyMeta(ctx context.Context, cmd []byte) (any, error) {
	g := n.host.Group(metaGroup)
	if g == nil {
		return nil, multiraft.ErrNotLeader
	}
	if len(cmd) == 0 {
		return nil, g.Confirm(ctx)
	}
	res, err := g.Apply(ctx, stamp(cmd, time.Now()))
	if err == nil {
		go n.spreadCommit()
	}
	return res, err
}

// spreadCommit lets the others apply what was just committed: they learn of it
// with the next entry. Without one that would take the group's commit timeout, a
// hundred milliseconds or more.
func (n *Node) spreadCommit() {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if g := n.host.Group(metaGroup); g != nil {
		_, _ = g.Apply(ctx, encode(&raftlogv1.MetaCommand{})) // nothing depends on it
	}
}

// stamp puts the leader's time into a SetLimits and leaves other commands
// alone. A message that follows another one is merged into it: this is how
// protocol buffers are read, and saves decoding all limits.
func stamp(cmd []byte, now time.Time) []byte {
	const firstByteOfSetLimits = 1<<3 | 2 // field 1, length-delimited
	if len(cmd) == 0 || cmd[0] != firstByteOfSetLimits {
		return cmd
	}
	at := encode(&raftlogv1.MetaCommand{Change: &raftlogv1.MetaCommand_SetLimits{
		SetLimits: &raftlogv1.SetLimits{AtUnixNanos: now.UnixNano()},
	}})
	return append(slices.Clip(cmd), at...)
}

// waitHere waits, a little, until this node has applied what is committed.
func (n *Node) waitHere(ctx context.Context, applied func() bool) {
	ctx, cancel := context.WithTimeout(ctx, spreadWait)
	defer cancel()
	for !applied() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(spreadPause):
		}
	}
}
