package raftgroup

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/internal/logs"
)

// TestOrdinaryLines checks that lines that raft logs as warnings whenever a replica joins are not
// logged as warnings.
func TestOrdinaryLines(t *testing.T) {
	for level, want := range map[slog.Level]string{slog.LevelInfo: "", slog.LevelDebug: "the leader sends the rest"} {
		var b strings.Builder
		l := newLogger(slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: level})), nil)
		l.Warn("failed to get previous log", "previous-index", 16, "last-index", 0, "error", "log not found")
		if got := b.String(); (got == "") != (want == "") || !strings.Contains(got, want) || strings.Contains(got, "WARN") {
			t.Errorf("at %v: %q", level, got)
		}
	}
}

// TestOrdinaryLinesByWhatTheySay checks that the arguments of a line decide whether it is a
// warning.
func TestOrdinaryLinesByWhatTheySay(t *testing.T) {
	const election, append = "heartbeat timeout reached, starting election", "failed to appendEntries to"
	for _, c := range []struct {
		msg   string
		args  []any
		warns bool
	}{
		{election, []any{"last-leader-addr", "", "last-leader-id", raft.ServerID("")}, false},
		{election, []any{"last-leader-addr", "n2", "last-leader-id", raft.ServerID("n2")}, true},
		{append, []any{"peer", "n2", "error", errors.New("n2 answered: no such group here")}, false},
		{append, []any{"peer", "n2", "error", transport.ErrUnreachable}, false},
		{append, []any{"peer", "n2", "error", transport.ErrLost}, false},
		{append, []any{"peer", "n2", "error", errors.New("n2 answered: the disk is full")}, true},
		{"failed to contact", []any{"server-id", "n2"}, false},
		{"failed to contact quorum of nodes, stepping down", nil, true},
		{"peer has newer term, stopping replication", []any{"peer", "n2"}, false},
		{"failed to commit logs", []any{"error", context.Canceled}, true},
	} {
		var b strings.Builder
		l := newLogger(slog.New(slog.NewTextHandler(&b, nil)), new(logs.RateLimit[string]))
		l.Error(c.msg, c.args...)
		if warns := b.String() != ""; warns != c.warns {
			t.Errorf("%s %v: %q", c.msg, c.args, b.String())
		}
	}
}
