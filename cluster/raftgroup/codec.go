package raftgroup

import (
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
)

func headerOut(h raft.RPCHeader) *peerv1.RaftHeader {
	return &peerv1.RaftHeader{Protocol: int32(h.ProtocolVersion), Id: h.ID, Address: h.Addr}
}

func headerIn(h *peerv1.RaftHeader) raft.RPCHeader {
	return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersion(h.GetProtocol()), ID: h.GetId(), Addr: h.GetAddress()}
}

// isHeartbeat distinguishes a plain heartbeat, which does not touch the log, from an append
// without entries, which carries the commit index and does.
func isHeartbeat(r *raft.AppendEntriesRequest) bool {
	return len(r.Entries) == 0 && r.PrevLogEntry == 0 && r.PrevLogTerm == 0 && r.LeaderCommitIndex == 0
}

func appendOut(r *raft.AppendEntriesRequest) *peerv1.AppendEntries {
	out := &peerv1.AppendEntries{
		Header: headerOut(r.RPCHeader), Term: r.Term, PrevLogEntry: r.PrevLogEntry, PrevLogTerm: r.PrevLogTerm,
		LeaderCommitIndex: r.LeaderCommitIndex, Entries: make([]*peerv1.LogEntry, len(r.Entries)),
	}
	for i, e := range r.Entries {
		out.Entries[i] = &peerv1.LogEntry{Index: e.Index, Term: e.Term, Type: uint32(e.Type), Data: e.Data, Extensions: e.Extensions}
		if !e.AppendedAt.IsZero() {
			out.Entries[i].AppendedAtUnixNanos = e.AppendedAt.UnixNano()
		}
	}
	return out
}

func appendIn(m *peerv1.AppendEntries) *raft.AppendEntriesRequest {
	r := &raft.AppendEntriesRequest{
		RPCHeader: headerIn(m.GetHeader()), Term: m.GetTerm(), PrevLogEntry: m.GetPrevLogEntry(), PrevLogTerm: m.GetPrevLogTerm(),
		LeaderCommitIndex: m.GetLeaderCommitIndex(),
	}
	for _, e := range m.GetEntries() {
		l := &raft.Log{Index: e.GetIndex(), Term: e.GetTerm(), Type: raft.LogType(e.GetType()), Data: e.GetData(), Extensions: e.GetExtensions()}
		if e.GetAppendedAtUnixNanos() != 0 {
			l.AppendedAt = time.Unix(0, e.GetAppendedAtUnixNanos())
		}
		r.Entries = append(r.Entries, l)
	}
	return r
}

// commandIn converts a message to the raft request it carries.
func commandIn(m *peerv1.Raft) (any, error) {
	switch x := m.GetMessage().(type) {
	case *peerv1.Raft_AppendEntries:
		return appendIn(x.AppendEntries), nil
	case *peerv1.Raft_RequestVote:
		v := x.RequestVote
		return &raft.RequestVoteRequest{
			RPCHeader: headerIn(v.GetHeader()), Term: v.GetTerm(),
			LastLogIndex: v.GetLastLogIndex(), LastLogTerm: v.GetLastLogTerm(), LeadershipTransfer: v.GetLeadershipTransfer(),
		}, nil
	case *peerv1.Raft_RequestPreVote:
		v := x.RequestPreVote
		return &raft.RequestPreVoteRequest{
			RPCHeader: headerIn(v.GetHeader()), Term: v.GetTerm(), LastLogIndex: v.GetLastLogIndex(), LastLogTerm: v.GetLastLogTerm(),
		}, nil
	case *peerv1.Raft_TimeoutNow:
		return &raft.TimeoutNowRequest{RPCHeader: headerIn(x.TimeoutNow.GetHeader())}, nil
	case *peerv1.Raft_InstallSnapshot:
		s := x.InstallSnapshot
		return &raft.InstallSnapshotRequest{
			RPCHeader: headerIn(s.GetHeader()), SnapshotVersion: raft.SnapshotVersion(s.GetSnapshotVersion()), Term: s.GetTerm(),
			LastLogIndex: s.GetLastLogIndex(), LastLogTerm: s.GetLastLogTerm(),
			Configuration: s.GetConfiguration(), ConfigurationIndex: s.GetConfigurationIndex(), Size: s.GetSize(),
		}, nil
	}
	return nil, fmt.Errorf("unknown raft message %T", m.GetMessage())
}

// resultOut converts raft's response to a frame.
func resultOut(group uint32, response any) *peerv1.Frame {
	m := &peerv1.Raft{Group: group}
	switch r := response.(type) {
	case *raft.AppendEntriesResponse:
		m.Message = &peerv1.Raft_AppendEntriesResult{AppendEntriesResult: &peerv1.AppendEntriesResult{
			Header: headerOut(r.RPCHeader), Term: r.Term, LastLog: r.LastLog, Success: r.Success, NoRetryBackoff: r.NoRetryBackoff,
		}}
	case *raft.RequestVoteResponse:
		m.Message = &peerv1.Raft_VoteResult{VoteResult: &peerv1.VoteResult{Header: headerOut(r.RPCHeader), Term: r.Term, Granted: r.Granted}}
	case *raft.RequestPreVoteResponse:
		m.Message = &peerv1.Raft_VoteResult{VoteResult: &peerv1.VoteResult{Header: headerOut(r.RPCHeader), Term: r.Term, Granted: r.Granted}}
	case *raft.TimeoutNowResponse:
		m.Message = &peerv1.Raft_TimeoutNowResult{TimeoutNowResult: &peerv1.TimeoutNowResult{Header: headerOut(r.RPCHeader)}}
	case *raft.InstallSnapshotResponse:
		m.Message = &peerv1.Raft_InstallSnapshotResult{InstallSnapshotResult: &peerv1.InstallSnapshotResult{
			Header: headerOut(r.RPCHeader), Term: r.Term, Success: r.Success,
		}}
	default:
		return &peerv1.Frame{Error: fmt.Sprintf("raft answered with %T", response)}
	}
	return &peerv1.Frame{Body: &peerv1.Frame_Raft{Raft: m}}
}
