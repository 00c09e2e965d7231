package raftgroup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/internal/quota"
)

// maxAppendBytes is how much of entries one append carries, unless a single
// entry is larger. What does not fit follows in the next.
const maxAppendBytes = 4 << 20

// awayFirst is the first pause before a node without a replica that works is
// asked again: at a start it opens it in a moment. Later ones are longer, up to
// leadCheck.
const awayFirst = 10 * time.Millisecond

// errStalled keeps a leader that cannot write from holding on to its followers.
var errStalled = errors.New("the own disk has not ended a write for too long")

// leadCheck is how often a transport that waits for a peer looks whether this
// replica still leads.
const leadCheck = 250 * time.Millisecond

// raftTransport is raft's way out of one group, over the links that all groups
// share. Node ids serve as addresses, so a node may move to another machine
// address without any group noticing.
type raftTransport struct {
	net         *transport.Net
	self        quota.NodeID
	group       uint32
	timing      Timing
	batcher     *heartbeatBatcher
	in          chan raft.RPC
	onHeartbeat atomic.Pointer[func(raft.RPC)]

	idle           time.Duration          // how often a leader without entries sends the commit index
	last           atomic.Uint64          // index of the entry that was stored last; 0 if none was
	commitsWaiting atomic.Int32           // appends without entries that wait to leave
	triggered      atomic.Int64           // when heartbeats were asked for last, unix nanoseconds
	leads          atomic.Pointer[func()] // asks raft whether it leads

	stalled   func() bool // whether the own disk hangs; nil for never
	readIndex *readIndex  // notes every answer; nil for nobody

	// wanted says whether raft still leads in that term, with that member.
	wanted atomic.Pointer[func(id raft.ServerID, term uint64) bool]

	ctx    context.Context // ends with the raft instance
	cancel context.CancelFunc
}

var (
	_ raft.Transport   = (*raftTransport)(nil)
	_ raft.WithPreVote = (*raftTransport)(nil) // without it raft holds no pre-votes, and says nothing
	_ raft.WithClose   = (*raftTransport)(nil)
)

func newTransport(net *transport.Net, batcher *heartbeatBatcher, self quota.NodeID, group uint32, t Timing) *raftTransport {
	tr := &raftTransport{net: net, batcher: batcher, self: self, group: group, timing: t, in: make(chan raft.RPC)}
	tr.ctx, tr.cancel = context.WithCancel(context.Background())
	return tr
}

// Consumer implements raft.Transport.
func (t *raftTransport) Consumer() <-chan raft.RPC { return t.in }

// LocalAddr implements raft.Transport.
func (t *raftTransport) LocalAddr() raft.ServerAddress { return raft.ServerAddress(t.self) }

// EncodePeer implements raft.Transport.
func (t *raftTransport) EncodePeer(_ raft.ServerID, addr raft.ServerAddress) []byte {
	return []byte(addr)
}

// DecodePeer implements raft.Transport.
func (t *raftTransport) DecodePeer(b []byte) raft.ServerAddress { return raft.ServerAddress(b) }

// SetHeartbeatHandler implements raft.Transport.
func (t *raftTransport) SetHeartbeatHandler(f func(raft.RPC)) { t.onHeartbeat.Store(&f) }

// Close fails the calls under way and those to come.
func (t *raftTransport) Close() error {
	t.cancel()
	t.batcher.flushAll() // so that no heartbeat keeps raft from ending
	return nil
}

// AppendEntriesPipeline implements raft.Transport. Pipelining wedges a follower
// for ever after one failed append, so there is none.
func (t *raftTransport) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

// AppendEntries implements raft.Transport.
func (t *raftTransport) AppendEntries(id raft.ServerID, _ raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if t.stalled != nil && t.stalled() {
		return errStalled
	}
	if isHeartbeat(args) {
		return t.heartbeat(id, args, resp)
	}
	if err := t.await(id, args.Term); err != nil {
		return err
	}
	if len(args.Entries) == 0 {
		return t.sendCommitIndex(id, args, resp)
	}
	return t.append(id, args, resp)
}

// append sends entries, again and again as long as the follower opens its replica.
func (t *raftTransport) append(id raft.ServerID, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	trim(args)
	number, limit := t.readIndex.round(), t.timing.rpcTimeout() // before it is sent
	m := &peerv1.Raft{Message: &peerv1.Raft_AppendEntries{AppendEntries: appendOut(args)}}
	a, err := t.call(id, peerv1.Lane_LANE_DATA, limit, m)
	for again := awayFirst; isAway(err) && t.pause(again, id, args.Term); again = min(2*again, leadCheck) {
		a, err = t.call(id, peerv1.Lane_LANE_DATA, limit, m)
	}
	if err != nil {
		return err
	}
	return t.appended(id, args, resp, a, number)
}

// appended takes the answer to what was sent in that round of readIndex.
func (t *raftTransport) appended(id raft.ServerID, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse, a *peerv1.Raft, number uint64) error {
	r := a.GetAppendEntriesResult()
	if r == nil {
		return errAnswer(a)
	}
	*resp = raft.AppendEntriesResponse{
		RPCHeader: headerIn(r.GetHeader()), Term: r.GetTerm(), LastLog: r.GetLastLog(), Success: r.GetSuccess(), NoRetryBackoff: r.GetNoRetryBackoff(),
	}
	if resp.Success && resp.Term == args.Term {
		t.readIndex.noteAnswer(quota.NodeID(id), args.Term, number)
	}
	return nil
}

// trim drops entries that would make the frame too large. Raft counts as sent
// what it finds in args afterwards, and sends the rest next.
func trim(args *raft.AppendEntriesRequest) {
	bytes := 0
	for i, e := range args.Entries {
		bytes += len(e.Data) + len(e.Extensions)
		if i > 0 && bytes > maxAppendBytes {
			args.Entries = args.Entries[:i]
			return
		}
	}
}

// RequestVote implements raft.Transport.
func (t *raftTransport) RequestVote(id raft.ServerID, _ raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	v := &peerv1.RequestVote{
		Header: headerOut(args.RPCHeader), Term: args.Term,
		LastLogIndex: args.LastLogIndex, LastLogTerm: args.LastLogTerm, LeadershipTransfer: args.LeadershipTransfer,
	}
	r, err := t.vote(id, &peerv1.Raft{Message: &peerv1.Raft_RequestVote{RequestVote: v}})
	if err != nil {
		return err
	}
	*resp = raft.RequestVoteResponse{RPCHeader: headerIn(r.GetHeader()), Term: r.GetTerm(), Granted: r.GetGranted()}
	return nil
}

// RequestPreVote implements raft.WithPreVote.
func (t *raftTransport) RequestPreVote(id raft.ServerID, _ raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	v := &peerv1.RequestVote{
		Header: headerOut(args.RPCHeader), Term: args.Term, LastLogIndex: args.LastLogIndex, LastLogTerm: args.LastLogTerm,
	}
	r, err := t.vote(id, &peerv1.Raft{Message: &peerv1.Raft_RequestPreVote{RequestPreVote: v}})
	if err != nil {
		return err
	}
	*resp = raft.RequestPreVoteResponse{RPCHeader: headerIn(r.GetHeader()), Term: r.GetTerm(), Granted: r.GetGranted()}
	return nil
}

func (t *raftTransport) vote(id raft.ServerID, m *peerv1.Raft) (*peerv1.VoteResult, error) {
	a, err := t.call(id, peerv1.Lane_LANE_CONTROL, t.timing.Election, m)
	if err != nil {
		return nil, err
	}
	if r := a.GetVoteResult(); r != nil {
		return r, nil
	}
	return nil, errAnswer(a)
}

// TimeoutNow implements raft.Transport.
func (t *raftTransport) TimeoutNow(id raft.ServerID, _ raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	m := &peerv1.Raft{Message: &peerv1.Raft_TimeoutNow{TimeoutNow: &peerv1.TimeoutNow{Header: headerOut(args.RPCHeader)}}}
	a, err := t.call(id, peerv1.Lane_LANE_CONTROL, t.timing.Election, m)
	if err != nil {
		return err
	}
	if a.GetTimeoutNowResult() == nil {
		return errAnswer(a)
	}
	resp.RPCHeader = headerIn(a.GetTimeoutNowResult().GetHeader())
	return nil
}

// InstallSnapshot implements raft.Transport. It is bounded by progress, not by
// time: a large state takes long.
func (t *raftTransport) InstallSnapshot(id raft.ServerID, _ raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, body io.Reader) error {
	m := &peerv1.Raft{Group: t.group, Message: &peerv1.Raft_InstallSnapshot{InstallSnapshot: &peerv1.InstallSnapshot{
		Header: headerOut(args.RPCHeader), SnapshotVersion: int32(args.SnapshotVersion), Term: args.Term,
		LastLogIndex: args.LastLogIndex, LastLogTerm: args.LastLogTerm,
		Configuration: args.Configuration, ConfigurationIndex: args.ConfigurationIndex, Size: args.Size,
	}}}
	if err := t.await(id, args.Term); err != nil {
		return err
	}
	a, err := t.net.Snapshot(t.ctx, quota.NodeID(id), &peerv1.Frame{Body: &peerv1.Frame_Raft{Raft: m}}, args.Size, body)
	if err != nil {
		return err
	}
	r := a.GetRaft().GetInstallSnapshotResult()
	if r == nil {
		return errAnswer(a.GetRaft())
	}
	*resp = raft.InstallSnapshotResponse{RPCHeader: headerIn(r.GetHeader()), Term: r.GetTerm(), Success: r.GetSuccess()}
	return nil
}

// await holds back replication to a peer that is not connected, as long as
// this replica leads in the term and the peer is a member. If it failed instead, raft would wait longer
// after every failure, up to ten seconds, and would go on waiting when the peer
// is back. Heartbeats are not held back: raft's lease depends on their failing.
func (t *raftTransport) await(id raft.ServerID, term uint64) error {
	for !t.net.Connected(quota.NodeID(id)) {
		if wanted := t.wanted.Load(); wanted == nil || !(*wanted)(id, term) {
			return transport.ErrUnreachable
		}
		ctx, cancel := context.WithTimeout(t.ctx, leadCheck)
		err := t.net.WaitConnected(ctx, quota.NodeID(id))
		if errors.Is(err, transport.ErrUnreachable) {
			<-ctx.Done() // its address is not known here yet
			err = ctx.Err()
		}
		cancel()
		if err != nil && (t.ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
			return err
		}
	}
	return nil
}

// isAway says whether a node answered that it has no replica of the group that
// works just now.
func isAway(err error) bool {
	var remote *transport.RemoteError
	return errors.As(err, &remote) && (remote.Text == noGroup || remote.Text == stoppedGroup)
}

// pause waits before such a node is asked again, for the same reason as await;
// false when it is not to be.
func (t *raftTransport) pause(d time.Duration, id raft.ServerID, term uint64) bool {
	select {
	case <-time.After(d):
	case <-t.ctx.Done():
		return false
	}
	wanted := t.wanted.Load()
	return wanted != nil && (*wanted)(id, term)
}

// call asks the group's replica on another node. The answer is a message of
// its own, so a late one never writes into what raft has moved on from.
func (t *raftTransport) call(id raft.ServerID, lane peerv1.Lane, limit time.Duration, m *peerv1.Raft) (*peerv1.Raft, error) {
	if err := t.ctx.Err(); err != nil {
		return nil, err // nothing leaves a replica that has failed
	}
	m.Group = t.group
	ctx, cancel := context.WithTimeout(t.ctx, limit)
	defer cancel()
	a, err := t.net.Call(ctx, quota.NodeID(id), lane, &peerv1.Frame{Body: &peerv1.Frame_Raft{Raft: m}})
	if err != nil {
		return nil, err
	}
	if a.GetRaft() == nil {
		return nil, errors.New("answer carries no raft message")
	}
	return a.GetRaft(), nil
}

func errAnswer(m *peerv1.Raft) error { return fmt.Errorf("unexpected answer %T", m.GetMessage()) }
