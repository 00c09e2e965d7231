package raftgroup

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/internal/logs"
)

// repeatEvery is the minimum interval between log lines of one kind about unreachable peers.
const repeatEvery = 10 * time.Second

// unreachable lists the lines that raft repeats for every group and every attempt while a peer is
// away. One line per kind and interval is enough.
var unreachable = map[string]bool{
	"failed to heartbeat to":                        true,
	"failed to appendEntries to":                    true,
	"failed to make requestVote RPC":                true,
	"failed to send snapshot to":                    true,
	"failed to install snapshot":                    true,
	"heartbeat timeout reached, starting election":  true,
	"Election timeout reached, restarting election": true,
}

// ordinary maps lines that sound like a fault but are not one to the text to log instead, at
// debug. They occur with every start, join, leadership transfer and stop.
var ordinary = map[string]string{
	"failed to get previous log":                                 "the log here ends before what the leader took it to have; the leader sends the rest",
	"appendEntries rejected, sending older logs":                 "the log of a follower ends before what this leader took it to have; it is sent the rest",
	"no known peers, aborting election":                          "waits for the leader that takes this replica in",
	"peer has newer term, stopping replication":                  "another term has begun: this node no longer leads the group",
	"rejecting vote request since we have a leader":              "does not vote, because there is a leader",
	"rejecting pre-vote request since we have a leader":          "does not vote, because there is a leader",
	"rejecting vote request since our last term is greater":      "does not vote for a candidate whose log is older",
	"rejecting pre-vote request since our last term is greater":  "does not vote for a candidate whose log is older",
	"rejecting vote request since our last index is greater":     "does not vote for a candidate whose log is shorter",
	"rejecting pre-vote request since our last index is greater": "does not vote for a candidate whose log is shorter",
	"failed to contact":                                          "a voter does not answer", // the cluster logs once which node is unreachable
	"heartbeat timeout reached, not part of a stable configuration or a non-voter, not triggering a leader election": "waits to be a voter",
}

// loggedElsewhere lists errors, in lines about a peer, whose cause is logged once elsewhere: the
// peer is away or has left, it has not opened a group yet, or this node is stopping.
var loggedElsewhere = []string{transport.ErrUnreachable.Error(), transport.ErrLost.Error(), noGroup, stoppedGroup, context.Canceled.Error()}

// isOrdinary reports whether a line with these arguments describes normal operation.
func isOrdinary(msg string, args []any) bool {
	if msg == "heartbeat timeout reached, starting election" {
		return text(args, "last-leader-id") == "" // just started, no leader seen yet
	}
	if !unreachable[msg] {
		return false
	}
	err := text(args, "error")
	return slices.ContainsFunc(loggedElsewhere, func(end string) bool { return strings.HasSuffix(err, end) })
}

// text returns the value of a log argument, or "" without an argument of that name.
func text(args []any, name string) string {
	for i := 0; i+1 < len(args); i += 2 {
		if args[i] == name {
			return fmt.Sprint(args[i+1])
		}
	}
	return ""
}

// logger adapts slog to raft's logger. It logs raft's INFO at debug, because with many groups it
// is noise, and drops everything below INFO.
type logger struct {
	out   *slog.Logger
	limit *logs.RateLimit[string] // of lines about unreachable peers, across all groups
	name  string
	args  []any
}

var _ hclog.Logger = (*logger)(nil)

func newLogger(out *slog.Logger, limit *logs.RateLimit[string]) *logger {
	return &logger{out: out, limit: limit}
}

// Log implements hclog.Logger, as do the methods below.
func (l *logger) Log(level hclog.Level, msg string, args ...any) {
	var to slog.Level
	switch level {
	case hclog.Info:
		to = slog.LevelDebug
	case hclog.Warn:
		to = slog.LevelWarn
	case hclog.Error:
		to = slog.LevelError
	default:
		return
	}
	if words := ordinary[msg]; words != "" {
		msg, to = words, slog.LevelDebug
	}
	if isOrdinary(msg, args) {
		to = slog.LevelDebug
	}
	if unreachable[msg] && to > slog.LevelDebug {
		repeated, ok := l.limit.Allow(msg, time.Now(), 1, repeatEvery)
		if !ok {
			return
		}
		to = slog.LevelWarn
		if repeated > 0 {
			args = append(slices.Clip(args), "repeated", repeated)
		}
	}
	if l.out.Enabled(context.Background(), to) {
		if i := slices.Index(args, any("error")); i >= 0 && i%2 == 0 {
			args = slices.Clone(args)
			args[i] = "err" // the key used elsewhere
		}
		l.out.Log(context.Background(), to, "raft: "+msg, args...)
	}
}

func (l *logger) Trace(string, ...any)          {}
func (l *logger) Debug(string, ...any)          {}
func (l *logger) Info(msg string, args ...any)  { l.Log(hclog.Info, msg, args...) }
func (l *logger) Warn(msg string, args ...any)  { l.Log(hclog.Warn, msg, args...) }
func (l *logger) Error(msg string, args ...any) { l.Log(hclog.Error, msg, args...) }
func (l *logger) IsTrace() bool                 { return false }
func (l *logger) IsDebug() bool                 { return false }
func (l *logger) IsInfo() bool                  { return l.out.Enabled(context.Background(), slog.LevelDebug) }
func (l *logger) IsWarn() bool                  { return true }
func (l *logger) IsError() bool                 { return true }
func (l *logger) ImpliedArgs() []any            { return l.args }
func (l *logger) Name() string                  { return l.name }
func (l *logger) SetLevel(hclog.Level)          {}
func (l *logger) GetLevel() hclog.Level         { return hclog.Info }

func (l *logger) With(args ...any) hclog.Logger {
	c := *l
	c.out = l.out.With(args...)
	c.args = slices.Concat(l.args, args)
	return &c
}

func (l *logger) Named(name string) hclog.Logger {
	c := *l
	c.name = name
	return &c
}

func (l *logger) ResetNamed(name string) hclog.Logger { return l.Named(name) }

func (l *logger) StandardLogger(*hclog.StandardLoggerOptions) *log.Logger {
	return slog.NewLogLogger(l.out.Handler(), slog.LevelDebug)
}

func (l *logger) StandardWriter(*hclog.StandardLoggerOptions) io.Writer {
	return l.StandardLogger(nil).Writer()
}
