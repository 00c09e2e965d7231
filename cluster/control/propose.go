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
	// SpreadWait bounds the wait for nodes to apply a committed change.
	SpreadWait     = 2 * time.Second
	proposeLimit   = 10 * time.Second
	proposeTimeout = 2 * time.Second // per try
)

// proposal is a change of the meta group's state, and how to forward it to the group's leader.
type proposal struct {
	command []byte
	call    func(command []byte) *peerv1.Call
	result  func(*peerv1.Call) any // decodes the answer
	// made, if not nil, reports whether this node has applied the change: if the answer was lost, a
	// large command need not be sent again. The result is nil then.
	made func() bool
}

// newProposal encodes the command. It returns an error if that fails or the command is too large
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

// propose retries the proposal until the group has accepted it. If there is no leader for ten
// seconds or until ctx ends, it returns a NoLeaderError; the change may still take effect later.
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

// proposeFor is propose for a change whose result is a T; what names the changed state in an error.
func proposeFor[T any](ctx context.Context, s *Store, what string, p proposal) (T, error) {
	out, err := s.propose(ctx, p)
	res, ok := out.(T)
	if err == nil && !ok {
		err = fmt.Errorf("%s: the log answered %v", what, out)
	}
	return res, err
}

// untilDone retries until try succeeds. After ten seconds or when ctx ends, it returns a
// NoLeaderError, in which what names the action that the meta group did not take.
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

// callLeader calls the meta leader. It returns an error if there is no leader or this node is it.
func (s *Store) callLeader(ctx context.Context, c *peerv1.Call) (*peerv1.Call, error) {
	to := s.node.MetaLeader()
	if to == "" || to == s.self {
		return nil, errors.New("the meta group has no leader")
	}
	return s.node.Call(ctx, to, c)
}

// ApplyMeta proposes the command on this node. The error concerns the proposal; the result contains
// any error of the change itself.
func (s *Store) ApplyMeta(ctx context.Context, cmd []byte) (any, error) {
	g := s.node.MetaGroup()
	if g == nil {
		return nil, raftgroup.ErrNotLeader
	}
	res, err := g.Apply(ctx, cmd)
	if err == nil {
		select {
		case s.committed <- struct{}{}:
		default:
		}
	}
	return res, err
}

var advanceCommit = snapshotio.Encode(&raftlogv1.MetaCommand{Change: &raftlogv1.MetaCommand_AdvanceCommit{AdvanceCommit: &raftlogv1.AdvanceCommit{}}})

// spreadCommits makes the followers apply each commit at once: they learn of it with the next
// entry. Without such an entry, that would take the group's commit timeout of a hundred
// milliseconds or more. Commits that arrive during one such entry share the next.
func (s *Store) spreadCommits() {
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.committed:
		}
		if g := s.node.MetaGroup(); g != nil {
			ctx, cancel := context.WithTimeout(s.ctx, proposeTimeout)
			_, _ = g.Apply(ctx, advanceCommit) // best effort
			cancel()
		}
	}
}

// waitHere waits up to SpreadWait until applied returns true.
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
