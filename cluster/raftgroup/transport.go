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
	"github.com/quorate/quorate/internal/backoff"
	"github.com/quorate/quorate/internal/quota"
)

// maxAppendBytes is the maximum size of the entries in one append, unless a single entry is
// larger. The rest follows in the next append.
const maxAppendBytes = 4 << 20

// awayFirst is the first pause before retrying a node that has no working replica: a node that is
// starting opens it in a moment. Later pauses are longer, up to leadCheck.
const awayFirst = 10 * time.Millisecond

// errStalled fails the appends of a leader that cannot write, so that it loses its followers.
var errStalled = errors.New("a write to the local disk takes too long")

// leadCheck is how often a transport that waits for a peer checks whether this replica still
// leads.
const leadCheck = 250 * time.Millisecond

// raftTransport is raft's transport for one group, over the links that all groups share. Node ids
// serve as raft addresses, so a node may move to another machine address without any group
// noticing.
type raftTransport struct {
	net         *transport.Net
	self        quota.NodeID
	group       uint32
	timing      Timing
	batcher     *heartbeatBatcher
	in          chan raft.RPC
	onHeartbeat atomic.Pointer[func(raft.RPC)]

	idle           time.Duration          // interval at which an idle leader sends the commit index
	last           atomic.Uint64          // index of the last entry stored; 0 if none
	commitsWaiting atomic.Int32           // appends without entries that wait to be sent
	triggered      atomic.Int64           // when heartbeats were last triggered, in Unix nanoseconds
	leads          atomic.Pointer[func()] // makes raft verify its leadership

	stalled   func() bool // reports whether this node's disk hangs; nil means never
	readIndex *readIndex  // records when followers answer; nil outside a group

	// wanted reports whether raft still leads in that term with that member.
	wanted atomic.Pointer[func(id raft.ServerID, term uint64) bool]

	ctx    context.Context // ends with the raft instance
	cancel context.CancelFunc
}

var (
	_ raft.Transport   = (*raftTransport)(nil)
	_ raft.WithPreVote = (*raftTransport)(nil) // without it raft silently skips pre-votes
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

// Close fails calls in flight and all later ones.
func (t *raftTransport) Close() error {
	t.cancel()
	t.batcher.flushAll() // so that no waiting heartbeat delays raft's shutdown
	return nil
}

// AppendEntriesPipeline implements raft.Transport. It always fails, because with pipelining one
// failed append wedges a follower forever.
func (t *raftTransport) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

// AppendEntries implements raft.Transport.
func (t *raftTransport) AppendEntries(id raft.ServerID, _ raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if t.stalled != nil && t.stalled() {
		return errStalled
	}
	if isHeartbeat(args) {
		// The timeout is short, so a lost heartbeat does not delay the next for long.
		err := t.sendBatched(id, args, resp, t.latest(id, args.Term), t.timing.Heartbeat)
		if err == nil && resp.Success {
			t.triggerHeartbeats()
		}
		return err
	}
	if err := t.await(id, args.Term); err != nil {
		return err
	}
	if len(args.Entries) == 0 { // it carries the commit index
		// Raft sends this follower no entries until it is answered, so it leaves as soon as there are any.
		at := time.Now().Add(t.idle / 5)
		if late := t.latest(id, args.Term); late.Before(at) {
			at = late
		}
		return t.sendBatched(id, args, resp, at, t.timing.rpcTimeout())
	}
	return t.append(id, args, resp)
}

// append sends entries, and retries while the follower has no working replica.
func (t *raftTransport) append(id raft.ServerID, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	trim(args)
	limit := t.timing.rpcTimeout()
	m := &peerv1.Raft{Message: &peerv1.Raft_AppendEntries{AppendEntries: appendOut(args)}}
	a, err := t.call(id, peerv1.Lane_LANE_DATA, limit, m)
	for again := awayFirst; isAway(err) && t.pause(again, id, args.Term); again = min(2*again, leadCheck) {
		a, err = t.call(id, peerv1.Lane_LANE_DATA, limit, m)
	}
	if err != nil {
		return err
	}
	return t.appended(id, args, resp, a)
}

// appended processes the answer to an append.
func (t *raftTransport) appended(id raft.ServerID, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse, a *peerv1.Raft) error {
	r := a.GetAppendEntriesResult()
	if r == nil {
		return errAnswer(a)
	}
	*resp = raft.AppendEntriesResponse{
		RPCHeader: headerIn(r.GetHeader()), Term: r.GetTerm(), LastLog: r.GetLastLog(), Success: r.GetSuccess(), NoRetryBackoff: r.GetNoRetryBackoff(),
	}
	if resp.Success && resp.Term == args.Term {
		t.readIndex.noteAnswer(quota.NodeID(id), args.Term)
	}
	return nil
}

// trim drops entries that would make the frame too large. Raft counts what remains in args as
// sent and sends the rest next.
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

// InstallSnapshot implements raft.Transport. Progress bounds it, not total time: a large state
// takes long to send.
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

// await blocks replication to a peer that is not connected, as long as this replica leads in the
// term and the peer is a member. If it failed instead, raft would back off, up to ten seconds,
// and keep waiting after the peer returns. Heartbeats do not wait here: raft's lease depends on
// their failures.
func (t *raftTransport) await(id raft.ServerID, term uint64) error {
	for !t.net.Connected(quota.NodeID(id)) {
		if wanted := t.wanted.Load(); wanted == nil || !(*wanted)(id, term) {
			return transport.ErrUnreachable
		}
		ctx, cancel := context.WithTimeout(t.ctx, leadCheck)
		err := t.net.WaitConnected(ctx, quota.NodeID(id))
		if errors.Is(err, transport.ErrUnreachable) {
			<-ctx.Done() // this node does not know its address yet
			err = ctx.Err()
		}
		cancel()
		if err != nil && (t.ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
			return err
		}
	}
	return nil
}

// isAway reports whether a node answered that it has no working replica of the group now.
func isAway(err error) bool {
	var remote *transport.RemoteError
	return errors.As(err, &remote) && (remote.Text == noGroup || remote.Text == stoppedGroup)
}

// pause waits before retrying such a node, for the same reason as await. It returns false if the
// caller should give up.
func (t *raftTransport) pause(d time.Duration, id raft.ServerID, term uint64) bool {
	if backoff.Sleep(t.ctx, d) != nil {
		return false
	}
	wanted := t.wanted.Load()
	return wanted != nil && (*wanted)(id, term)
}

// call sends a request to the group's replica on another node. It decodes the answer into a
// message of its own, so a late answer never writes into memory that raft has moved on from.
func (t *raftTransport) call(id raft.ServerID, lane peerv1.Lane, limit time.Duration, m *peerv1.Raft) (*peerv1.Raft, error) {
	if err := t.ctx.Err(); err != nil {
		return nil, err // a failed replica sends nothing
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
