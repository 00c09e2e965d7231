package raftgroup

import (
	"bytes"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/logs"
)

func TestAppendSurvivesTheWire(t *testing.T) {
	want := &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: 3, ID: []byte("a"), Addr: []byte("a")},
		Term:      7, PrevLogEntry: 5, PrevLogTerm: 6, LeaderCommitIndex: 4,
		Entries: []*raft.Log{
			{Index: 6, Term: 7, Type: raft.LogNoop},
			{Index: 7, Term: 7, Type: raft.LogCommand, Data: []byte("x"), Extensions: []byte("y"), AppendedAt: time.Unix(1, 2)},
		},
	}
	got, err := commandIn(&peerv1.Raft{Message: &peerv1.Raft_AppendEntries{AppendEntries: appendOut(want)}})
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v became %+v, %v", want, got, err)
	}
	if isHeartbeat(want) || isHeartbeat(&raft.AppendEntriesRequest{Term: 1, LeaderCommitIndex: 1}) {
		t.Error("what touches the log is taken for a heartbeat")
	}
	if !isHeartbeat(&raft.AppendEntriesRequest{Term: 1}) {
		t.Error("a heartbeat is not recognised")
	}
}

func TestAppendsAreTrimmed(t *testing.T) {
	entries := func(n, size int) *raft.AppendEntriesRequest {
		r := &raft.AppendEntriesRequest{}
		for range n {
			r.Entries = append(r.Entries, &raft.Log{Data: make([]byte, size)})
		}
		return r
	}
	for _, c := range []struct{ n, size, want int }{{64, 100, 64}, {64, 1 << 20, 4}, {3, MaxEntry, 1}, {0, 0, 0}} {
		r := entries(c.n, c.size)
		if trim(r); len(r.Entries) != c.want {
			t.Errorf("%d entries of %d bytes: %d are sent, want %d", c.n, c.size, len(r.Entries), c.want)
		}
	}
}

func TestUnreachablePeersAreLoggedRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := newLogger(slog.New(slog.NewTextHandler(&out, nil)), new(logs.RateLimit[string]))
		for range 100 {
			l.With("group", "g1").Error("failed to heartbeat to", "peer", "b")
			l.Info("entering follower state")
		}
		l.Error("failed to restore snapshot")
		time.Sleep(repeatEvery)
		l.Error("failed to heartbeat to", "peer", "b")
		got := out.String()
		if strings.Count(got, "\n") != 3 || !strings.Contains(got, "repeated=99") || !strings.Contains(got, "level=ERROR") {
			t.Error(got)
		}
	})
}
