package recorder

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/peercall"
	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
)

// Node is the interface of the node that a Recorder runs on. Its methods must be safe for concurrent use.
type Node interface {
	// Now returns the cluster's time.
	Now() quota.Time
	// Replica returns the history that a range's log has produced on this node, or nil for an unknown range.
	Replica(r quota.RangeID) *Replica
	// Open reports whether this node has a replica of the range's log.
	Open(r quota.RangeID) bool
	// WithLedger calls f with the ledger of a range, under its lock, if this node leads the range.
	WithLedger(r quota.RangeID, f func(l *leader.Ledger, now quota.Time))
	// Propose writes an entry to the log of a range that this node leads.
	Propose(ctx context.Context, r quota.RangeID, entry []byte) error
	// Leader returns the leader of a range as far as this node knows; "" if unknown.
	Leader(r quota.RangeID) quota.NodeID
	// Voters returns the nodes that keep a range.
	Voters(r quota.RangeID) []quota.NodeID
	// Up reports whether a node is connected.
	Up(id quota.NodeID) bool
	// Peers returns the connected processes.
	Peers() []history.Process
	// Call calls another node.
	Call(ctx context.Context, to quota.NodeID, c *peerv1.Call) (*peerv1.Call, error)
	// Tally reports the decisions of ended seconds, or of all seconds if all is set, and forgets them.
	Tally(all bool, add func(l quota.LimitName, admitted, refused quota.Units))
	// OnMemberLoop schedules f on the goroutine that calls Tick.
	OnMemberLoop(f func(now quota.Time))
}

// Config configures a Recorder.
type Config struct {
	Self   history.Process
	Ranges int
	Dir    string // the node's data directory; "" stores nothing
	Keep   Retention
	Log    *slog.Logger
	// Registry receives the metrics.
	Registry prometheus.Registerer
}

// Recorder counts what this node decides, and uploads it to the leaders of the ranges that keep it. It
// stores what their logs say, and answers queries about it. All methods are safe for concurrent use.
type Recorder struct {
	cfg  Config
	node Node
	log  *slog.Logger
	// failures counts failed writes to disk.
	failures prometheus.Counter

	Uploader uploader
	Files    store
	backfill Backfill

	started atomic.Bool
	ctx     context.Context // ends with the recorder
	cancel  context.CancelFunc
	done    sync.WaitGroup
}

// New returns a Recorder that counts. Start makes it upload and store.
func New(cfg *Config, node Node) *Recorder {
	s := &Recorder{
		cfg: *cfg, node: node, log: cfg.Log,
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "quorate_history_failures_total", Help: "Failed writes of history to the disk; they are retried.",
		}),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.Uploader.init(s)
	s.Uploader.metrics(cfg.Registry)
	cfg.Registry.MustRegister(s.failures, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "quorate_history_bytes", Help: "Size of this node's history files.",
	}, s.Files.bytes))
	s.Files.open(s)
	s.backfill = Backfill{Service: s, Progress: map[BackfillSource]BackfillProgress{}}
	return s
}

// Start starts the goroutines that upload, store and fetch until Close.
func (s *Recorder) Start() {
	s.started.Store(true)
	s.done.Go(s.Uploader.run)
	s.done.Go(s.Files.run)
	s.done.Go(s.backfill.run)
}

// Close stops the goroutines that Start started, if any, and closes the files.
func (s *Recorder) Close() error {
	s.cancel()
	s.done.Wait()
	return s.Files.close()
}

// Tick counts the decisions of the second that has ended. The member loop calls it.
func (s *Recorder) Tick(now quota.Time) {
	if u, at := &s.Uploader, Second(now); !s.cfg.Keep.Off && at > u.last {
		u.last = at
		u.collect(at-1, false)
	}
}

// ClockSet restarts the count after the clock was set. Call it before anything is counted.
func (s *Recorder) ClockSet() {
	s.Uploader.mu.Lock()
	defer s.Uploader.mu.Unlock()
	s.Uploader.tally = s.Uploader.newTally()
}

// Ended counts the last measurements of a ledger that is about to be dropped. The caller holds the lock of its replica.
func (s *Recorder) Ended(now quota.Time, r quota.RangeID, l *leader.Ledger) {
	s.Uploader.measure(Second(now), r, l)
	s.Uploader.mu.Lock()
	defer s.Uploader.mu.Unlock()
	delete(s.Uploader.live, r)
}

// HandOver writes the lists of keys before ranges move to other leaders, until ctx ends.
func (s *Recorder) HandOver(ctx context.Context) {
	if s.started.Load() {
		s.Uploader.handOver(ctx)
	}
}

// Finish uploads all counts before the node stops, until ctx ends.
func (s *Recorder) Finish(ctx context.Context) {
	if s.started.Load() {
		s.Uploader.Finish(ctx)
	}
}

// Forget deletes the stored history of a range that this node no longer keeps.
func (s *Recorder) Forget(r quota.RangeID) {
	if s.Files.Archive == nil {
		return
	}
	if err := s.Files.Archive.Drop(r); err != nil {
		s.log.Warn("history: files of a range that has moved away were not deleted", "range", r, "err", err)
	}
}

// AddCalls registers the peer calls about the history.
func (s *Recorder) AddCalls(t peercall.Table) {
	peercall.Handle(t, peercall.Limit, func(_ context.Context, from quota.NodeID, c *peerv1.CallHistoryUpload) (*peerv1.CallHistoryUploadResult, error) {
		return s.Uploader.onUpload(from, c), nil
	})
	peercall.Handle(t, historyReadLimit, func(ctx context.Context, _ quota.NodeID, c *peerv1.CallHistoryRead) (*peerv1.CallHistoryReadResult, error) {
		return s.onHistoryRead(ctx, c)
	})
}

// Retention configures how much history is kept. Off must be the same on all nodes: the history of the
// others lacks a node that keeps none. Zero values mean the defaults.
type Retention struct {
	Off      bool
	Minutes  time.Duration // how long one-minute points are kept; default 30 days
	Hours    time.Duration // how long one-hour points are kept; default 2 years
	MaxBytes int64         // bound on the size of this node's files; default 4 GiB
}
