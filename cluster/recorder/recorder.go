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

// Node is what the history needs of the node it runs on. All methods are called concurrently.
type Node interface {
	// Now returns the cluster's time.
	Now() quota.Time
	// Replica returns the history of a range as its log has made it here, nil for an unknown range.
	Replica(r quota.RangeID) *Replica
	// Open reports whether this node has a replica of the range's log.
	Open(r quota.RangeID) bool
	// WithLedger calls f with the ledger of a range that this node leads, under its lock.
	WithLedger(r quota.RangeID, f func(l *leader.Ledger, now quota.Time))
	// Propose writes an entry to the log of a range that this node leads.
	Propose(ctx context.Context, r quota.RangeID, entry []byte) error
	// Leader returns the leader of a range as far as this node knows it; "" is unknown.
	Leader(r quota.RangeID) quota.NodeID
	// Voters returns the nodes that keep a range.
	Voters(r quota.RangeID) []quota.NodeID
	// Up reports whether a node is connected.
	Up(id quota.NodeID) bool
	// Peers returns the processes that are connected.
	Peers() []history.Process
	// Call calls another node.
	Call(ctx context.Context, to quota.NodeID, c *peerv1.Call) (*peerv1.Call, error)
	// Tally passes on what was decided here, and forgets it: of seconds that are over, or of all.
	Tally(all bool, add func(l quota.LimitName, admitted, refused quota.Units))
	// OnMemberLoop calls f soon, on the goroutine that calls Tick.
	OnMemberLoop(f func(now quota.Time))
}

// Config says who counts, and where the history is stored.
type Config struct {
	Self   history.Process
	Ranges int
	Dir    string // the node's data directory; "" stores nothing
	Keep   Retention
	Log    *slog.Logger
	// Registry takes the metrics.
	Registry prometheus.Registerer
}

// Recorder counts what this node decides, uploads it to the leaders of the ranges that keep it,
// stores what their logs say, and answers queries about it. All methods are safe for concurrent use.
type Recorder struct {
	cfg  Config
	node Node
	log  *slog.Logger
	// failures counts what could not be stored.
	failures prometheus.Counter

	Uploader uploader
	Files    store
	backfill Backfill

	started atomic.Bool
	stop    chan struct{}
	done    sync.WaitGroup
}

// New returns a service that counts. Start makes it upload and store.
func New(cfg *Config, node Node) *Recorder {
	s := &Recorder{
		cfg: *cfg, node: node, log: cfg.Log, stop: make(chan struct{}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "quorate_history_failures_total", Help: "Times that the disk did not take a part of the history; it is tried again.",
		}),
	}
	s.Uploader.init(s)
	s.Uploader.metrics(cfg.Registry)
	cfg.Registry.MustRegister(s.failures, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "quorate_history_bytes", Help: "Bytes of this node's files of the history.",
	}, s.Files.bytes))
	s.Files.open(s)
	s.backfill = Backfill{Service: s, Progress: map[BackfillSource]BackfillProgress{}}
	return s
}

// Start uploads, stores and fetches until Close.
func (s *Recorder) Start() {
	s.started.Store(true)
	s.done.Add(3)
	go s.Uploader.run()
	go s.Files.run()
	go s.backfill.run()
}

// Close ends what Start began, if it was called, and closes the files.
func (s *Recorder) Close() error {
	close(s.stop)
	s.done.Wait()
	return s.Files.close()
}

// Tick takes what was decided in the second that is over. The member loop calls it.
func (s *Recorder) Tick(now quota.Time) { s.Uploader.tick(now) }

// ClockSet begins again, before anything was counted: the clock was set.
func (s *Recorder) ClockSet() { s.Uploader.reset() }

// Ended counts what a ledger has measured since the last time, before it is dropped. Its range is locked.
func (s *Recorder) Ended(now quota.Time, r quota.RangeID, l *leader.Ledger) {
	s.Uploader.ends(Second(now), r, l)
}

// HandOver writes the lists of keys before ranges go to other leaders, as far as ctx allows.
func (s *Recorder) HandOver(ctx context.Context) {
	if s.started.Load() {
		s.Uploader.handOver(ctx)
	}
}

// Finish uploads all that was counted, as far as ctx allows, before the node stops.
func (s *Recorder) Finish(ctx context.Context) {
	if s.started.Load() {
		s.Uploader.Finish(ctx)
	}
}

// Forget deletes what is stored of a range that other nodes keep now.
func (s *Recorder) Forget(r quota.RangeID) { s.Files.drop(r) }

// AddCalls adds the calls of other nodes about the history.
func (s *Recorder) AddCalls(t peercall.Table) {
	peercall.Handle(t, peercall.Limit, func(_ context.Context, from quota.NodeID, c *peerv1.CallHistoryUpload) (*peerv1.CallHistoryUploadResult, error) {
		return s.Uploader.onUpload(from, c), nil
	})
	peercall.Handle(t, historyReadLimit, func(ctx context.Context, _ quota.NodeID, c *peerv1.CallHistoryRead) (*peerv1.CallHistoryReadResult, error) {
		return s.onHistoryRead(ctx, c)
	})
}

// Retention says what is kept of the history of limits. Off must be the same on all nodes: who
// keeps none is missing in that of the others. Zeros are the defaults.
type Retention struct {
	Off      bool
	Minutes  time.Duration // how long points of a minute are kept; 30 days
	Hours    time.Duration // how long points of an hour are kept; 2 years
	MaxBytes int64         // of this node's files; 4 GiB
}
