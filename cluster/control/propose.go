package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/snapshotio"
)

const (
	tryPause    = 50 * time.Millisecond
	spreadPause = 5 * time.Millisecond
	// SpreadWait bounds the wait for other nodes to apply a change.
	SpreadWait     = 2 * time.Second // for others to apply what is committed
	proposeLimit   = 10 * time.Second
	proposeTimeout = 2 * time.Second // of one try
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
	if most := raftgroup.MaxEntry; len(data) > most {
		return proposal{}, fmt.Errorf("the change is %d bytes; at most %d", len(data), most)
	}
	return proposal{command: data}, nil
}

// propose repeats the proposal until the group has taken it. Without a leader
// for ten seconds or until ctx ends the error is a NoLeaderError; the change may
// be taken later nevertheless.
func (s *Store) propose(ctx context.Context, p proposal) (any, error) {
	return untilDone(ctx, "take the change", func(ctx context.Context) (any, error) {
		res, err := s.ApplyMeta(ctx, p.command)
		if errors.Is(err, raftgroup.ErrNotLeader) {
			var c *peerv1.Call
			if c, err = s.callLeader(ctx, p.call(p.command)); err == nil {
				res = p.result(c)
			}
		}
		if err != nil && p.made != nil && p.made() {
			return nil, nil
		}
		return res, err
	})
}

// untilDone repeats a try until it succeeds. After ten seconds or when ctx ends the error
// is a NoLeaderError; what names what the meta group did not do.
func untilDone[T any](ctx context.Context, what string, try func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, proposeLimit)
	defer cancel()
	for {
		res, err := try(ctx)
		if err == nil {
			return res, nil
		}
		select {
		case <-ctx.Done():
			return res, &quota.NoLeaderError{Reason: fmt.Sprintf("the meta group did not %s: %v", what, err)}
		case <-time.After(tryPause):
		}
	}
}

// callLeader calls the meta leader, which is another node.
func (s *Store) callLeader(ctx context.Context, c *peerv1.Call) (*peerv1.Call, error) {
	to := s.node.MetaLeader()
	if to == "" || to == s.self {
		return nil, errors.New("the meta group has no leader")
	}
	return s.node.Call(ctx, to, c)
}

// ApplyMeta proposes the command here. The error is about the proposal; that
// of the change itself is in the result.
func (s *Store) ApplyMeta(ctx context.Context, cmd []byte) (any, error) {
	g := s.node.MetaGroup()
	if g == nil {
		return nil, raftgroup.ErrNotLeader
	}
	res, err := g.Apply(ctx, cmd)
	if err == nil {
		go s.spreadCommit()
	}
	return res, err
}

var advanceCommit = snapshotio.Encode(&raftlogv1.MetaCommand{Change: &raftlogv1.MetaCommand_AdvanceCommit{AdvanceCommit: &raftlogv1.AdvanceCommit{}}})

// spreadCommit lets the others apply what was just committed: they learn of it
// with the next entry. Without one that would take the group's commit timeout, a
// hundred milliseconds or more.
func (s *Store) spreadCommit() {
	ctx, cancel := context.WithTimeout(context.Background(), proposeTimeout)
	defer cancel()
	if g := s.node.MetaGroup(); g != nil {
		_, _ = g.Apply(ctx, advanceCommit) // nothing depends on it
	}
}

// waitHere waits, a little, until this node has applied what is committed.
func (s *Store) waitHere(ctx context.Context, applied func() bool) {
	ctx, cancel := context.WithTimeout(ctx, SpreadWait)
	defer cancel()
	for !applied() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(spreadPause):
		}
	}
}
