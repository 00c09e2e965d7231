package control

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/internal/backoff"
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
	command *raftlogv1.MetaCommand
	call    func(command []byte) *peerv1.Call
	result  func(*peerv1.Call) any // decodes the answer
	lost    *lostAnswer            // nil if the group ignores a repetition
}

// lostAnswer is how to find out whether a change was made. Its repetition could undo what others
// changed after the first try.
type lostAnswer struct {
	nothing  *raftlogv1.MetaCommand  // has the same kind of result, and changes nothing
	revision func(result any) uint64 // number of changes, from such a result
	applied  func() uint64           // number of changes that this node has applied
	made     func() any              // returns the result if the state here is one after the change, or else nil
}

// fenceSize is the most that a fence adds to an encoded command: its tag, and ten bytes.
const fenceSize = 11

// newProposal returns an error if the command cannot be encoded or is too large for the log.
func newProposal(cmd *raftlogv1.MetaCommand) (proposal, error) {
	data, err := proto.Marshal(cmd)
	if err != nil {
		return proposal{}, err
	}
	if most := raftgroup.MaxEntry - fenceSize; len(data) > most {
		return proposal{}, fmt.Errorf("the change is %d bytes; at most %d", len(data), most)
	}
	return proposal{command: cmd}, nil
}

// propose retries the proposal until the group has accepted it. After ten seconds or when ctx ends,
// it returns an UnknownOutcomeError if the change may have been made or may be made later, and else a
// NoLeaderError. It also returns an UnknownOutcomeError if an answer was lost and others changed the
// state since.
func (s *Store) propose(ctx context.Context, p proposal) (any, error) {
	var before uint64
	if p.lost != nil {
		before = p.lost.applied()
	}
	var doubt error
	var fence uint64 // of the last try
	res, err := untilDone(ctx, "take the change", func(ctx context.Context) (any, error) {
		highest := s.machine.fence.Load()
		if doubt != nil && p.lost != nil {
			fence = max(fence+1, highest)
			if res, err := s.settle(ctx, p, fence, before); res != nil || err != nil {
				return res, err
			}
			doubt = nil
		}
		fence = max(fence, highest)
		res, err := s.try(ctx, p, fence)
		if err != nil && !unapplied(err) {
			doubt = err
		}
		return res, err
	})
	if err != nil && doubt != nil {
		err = &quota.UnknownOutcomeError{Reason: fmt.Sprintf("the change may have been made, or may be made later; look before you repeat it: %v", doubt)}
	}
	return res, err
}

// settle returns the result of a proposal whose answer was lost, or nil if it was not applied and will
// not be. To know all entries before, it adds one to the log; after this, a slow try has no effect,
// because its fence is lower. before is the number of changes before the first try.
func (s *Store) settle(ctx context.Context, p proposal, fence, before uint64) (any, error) {
	ask := p
	ask.command = p.lost.nothing
	out, err := s.try(ctx, ask, fence)
	if err != nil {
		return nil, err
	}
	now := p.lost.revision(out)
	s.waitHere(ctx, func() bool { return p.lost.applied() >= now })
	res := p.lost.made()
	if res == nil && now != before {
		err = errChangedSince
	}
	return res, err
}

// errChangedSince ends propose: the change may have been made and then changed by others.
var errChangedSince = errors.New("others made changes since")

// try proposes once, here or at the leader. The entry has a fence if the proposal can be settled.
func (s *Store) try(ctx context.Context, p proposal, fence uint64) (any, error) {
	if p.lost != nil {
		p.command.Fence = &fence
	}
	command := snapshotio.Encode(p.command)
	res, err := s.ApplyMeta(ctx, command)
	if !errors.Is(err, raftgroup.ErrNotLeader) {
		return res, err
	}
	c, err := s.callLeader(ctx, p.call(command))
	if err != nil {
		return nil, err
	}
	return p.result(c), nil
}

// unapplied reports whether the error of a try proves that the group did not and will not accept
// the proposal.
func unapplied(err error) bool {
	if transport.Unsent(err) || errors.Is(err, errNoMetaLeader) {
		return true
	}
	remote, answered := errors.AsType[*transport.RemoteError](err)
	for _, refusal := range []error{raftgroup.ErrNotLeader, raftgroup.ErrTransferring, raftgroup.ErrOverloaded, raftgroup.ErrTooLarge, raftgroup.ErrClosed, errFenced} {
		if errors.Is(err, refusal) || answered && strings.HasPrefix(remote.Text, refusal.Error()) {
			return true
		}
	}
	return false
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

// untilDone retries until try succeeds or returns errChangedSince. After ten seconds or when ctx ends,
// it returns a NoLeaderError, in which what names the action that the meta group did not take.
func untilDone[T any](ctx context.Context, what string, try func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, proposeLimit)
	defer cancel()
	for {
		res, err := try(ctx)
		if err == nil || errors.Is(err, errChangedSince) {
			return res, err
		}
		if backoff.Sleep(ctx, tryPause) != nil {
			return res, &quota.NoLeaderError{Reason: fmt.Sprintf("the meta group did not %s: %v", what, err)}
		}
	}
}

var errNoMetaLeader = errors.New("the meta group has no leader")

// callLeader calls the meta leader. It returns errNoMetaLeader if the leader is unknown or this node.
func (s *Store) callLeader(ctx context.Context, c *peerv1.Call) (*peerv1.Call, error) {
	to := s.node.MetaLeader()
	if to == "" || to == s.self {
		return nil, errNoMetaLeader
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
	if res == any(errFenced) {
		return nil, errFenced
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
		if backoff.Sleep(ctx, spreadPause) != nil {
			return
		}
	}
}
