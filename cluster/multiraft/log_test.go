package multiraft

import (
	"log/slog"
	"strings"
	"testing"
)

// TestOrdinaryLines: what raft warns of whenever a replica joins is no warning.
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
