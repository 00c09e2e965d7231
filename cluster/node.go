package cluster

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/cluster/accounts"
	"github.com/quorate/quorate/cluster/backup"
	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/cluster/clock"
	"github.com/quorate/quorate/cluster/control"
	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/cluster/dataplane"
	"github.com/quorate/quorate/cluster/gather"
	"github.com/quorate/quorate/cluster/journal"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/cluster/peercall"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/cluster/rates"
	"github.com/quorate/quorate/cluster/recorder"
	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/internal/elapsed"
	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
)

// Node is one member of a cluster. All methods are safe for concurrent use.
type Node struct {
	*control.Store     // limits, overrides, policies, access
	*recorder.Recorder // the history of demand
	*dataplane.Decider // checks, reservations, this node's view of keys
	*rates.Reader      // the leaders' view of keys
	gather             *gather.Service
	cfg                Config
	log                *slog.Logger
	clock              *clock.Clock
	inc                quota.Incarnation
	first              quota.Incarnation // of the data; equals inc for new data
	prior              quota.Incarnation // of the previous process; 0 for the first
	retired            atomic.Bool       // the node is about to stop
	lock               *datadir.Lock
	// journal does its own locking. It is nil if it could not be opened.
	journal *journal.Journal

	net      *transport.Net
	host     *raftgroup.Host
	meta     *control.Machine
	ranges   *replica.Set // every range, even if its group is not open here
	accounts *accounts.Service
	members  *membership.Service

	calls peercall.Table // calls that this node answers

	clients *clients.Service

	backups *backup.Service

	routes   routes
	observer *observer
	stats    stats
	load     *resources

	beaconNow chan struct{}
	ctx       context.Context // ends when the node closes
	cancel    context.CancelFunc
	done      sync.WaitGroup
	closed    sync.Once
}

// Start opens the node's data, connects it to its peers and starts its Raft
// groups. It returns before the cluster has leaders; Status says when the node is ready. A data
// directory of another node, cluster or number of ranges is an error.
func Start(cfg Config) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.AskWait == 0 {
		cfg.AskWait = DefaultAskWait
	}
	if cfg.Registry == nil {
		cfg.Registry = prometheus.NewRegistry()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	lock, s, err := openDir(&cfg)
	if err != nil {
		return nil, err
	}
	mc := cfg.membership(s)
	v, stored, err := membership.FirstView(&mc)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	n := newNode(cfg, v, stored, lock, s)
	if err := n.open(v); err != nil {
		return nil, errors.Join(err, n.Close(context.Background()))
	}
	n.run()
	return n, nil
}

func newNode(cfg Config, v *membership.View, stored bool, lock *datadir.Lock, s starts) *Node {
	n := &Node{
		cfg: cfg, log: cfg.Logger, inc: s.inc, first: s.first, prior: s.prior, lock: lock,
		beaconNow: make(chan struct{}, 1),
	}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.clock = clock.New(clock.Config{
		Wall: cfg.wall, Members: func() int { return len(n.members.View().IDs) }, Up: n.routes.upNodes, Log: n.log,
	}, elapsed.New())
	n.observer = &observer{asking: make(chan struct{}, 1)}
	n.load = newResources(cfg.Dir)
	n.members = membership.NewService(cfg.membership(s), v, stored, memberNode{part{n}})
	n.routes.init(cfg.Ranges)
	n.meta = control.NewMachine(n.limitsChanged, n.overridden)
	n.meta.Reloaded, n.meta.Regrouped = n.announce, n.members.Changed
	n.meta.Security.Changed = n.announce
	n.Store = control.NewStore(cfg.Self, storeNode{part{n}}, n.meta, n.log)
	n.stats.init(n, cfg.Registry)
	n.routes.changed = n.stats.leaderChanges.Inc
	n.ranges = n.newReplicas()
	n.Decider = n.newDecider(v)
	n.routes.answered = n.Aggregator().MetLeaders
	n.Reader = n.newRates()
	n.accounts = n.newAccounts()
	n.backups = n.newBackups()
	n.Recorder = n.newHistory()
	n.gather = gather.New(gather.Config{Self: cfg.Self, AuditPath: cfg.AuditLog}, slow{part{n}})
	n.clients = n.newClients()
	n.addCalls()
	return n
}

// open starts the links between nodes, then the Raft groups, which need them.
func (n *Node) open(v *membership.View) error {
	peers := maps.Clone(v.Nodes)
	delete(peers, n.cfg.Self)
	n.routes.setPeers(peers)
	var err error
	n.net, err = transport.New(transport.Config{
		Cluster: n.cfg.Cluster, Self: n.cfg.Self, Incarnation: n.inc, Ranges: uint32(n.cfg.Ranges),
		Listener: n.cfg.Listener, Peers: peers, Logger: n.log, TLS: n.cfg.TLS,
		Level: membership.Level, Required: func() uint32 { return n.members.View().Table.Level() },
		First: n.first, Returns: n.members.Lost, Packed: peerproto.PackedForm,
		Handle: n.handle, OnPeer: n.onPeer,
		HandleSnapshot: func(from quota.NodeID, h *peerv1.Frame, body io.Reader) *peerv1.Frame {
			return n.host.HandleSnapshot(from, h, body)
		},
	})
	if err != nil {
		return err
	}
	n.host, err = raftgroup.New(raftgroup.Config{
		Self: n.cfg.Self, Dir: n.cfg.Dir, Net: n.net, Timing: n.cfg.Timing, Logger: n.log, ReplicaProgress: n.members.ReplicaProgress,
		BalanceAfter: n.cfg.BalanceAfter, SlowDisk: n.cfg.SlowDisk, Unfit: n.clock.TooFarOff,
		Appended: func(took time.Duration) { n.stats.appends.Observe(took.Seconds()) },
	})
	if err != nil {
		return err
	}
	n.net.Start()
	n.done.Go(n.beaconLoop) // before the clock starts, because it asks other nodes for the time
	if n.clock.Start() {
		n.Decider.ClockSet()
		n.Recorder.ClockSet()
	}
	return n.members.Open()
}

func (n *Node) termStart() *raftlogv1.TermStart {
	return &raftlogv1.TermStart{Node: string(n.cfg.Self), AtUnixNanos: int64(n.clock.Now())}
}

func (n *Node) run() {
	n.clients.Start()
	n.done.Go(func() { n.clock.Run(n.ctx) })
	n.ranges.Start()
	n.Decider.Start()
	n.Store.Start()
	n.Recorder.Start()
	n.members.Start()
	n.accounts.Start()
}

// Retire prepares the node for a stop. The node reports that it is not ready, so that callers
// turn to other nodes, writes its counts to the logs and hands over its leaderships, both as far
// as ctx allows. It keeps deciding but leads nothing any more. Retire cannot be undone.
func (n *Node) Retire(ctx context.Context) {
	n.retired.Store(true)
	n.ranges.CheckpointAll(ctx)
	n.Recorder.HandOver(ctx)
	n.host.Retire(ctx)
}

// Out returns a channel that is closed once the node has left the cluster or was removed. The
// caller should then Close the node; its data is useless.
func (n *Node) Out() <-chan struct{} { return n.members.Out() }

// ChangeCluster carries out a call of ClusterService that needs the leader of the meta group; see
// membership.Service.Change.
func (n *Node) ChangeCluster(ctx context.Context, by string, req proto.Message) (proto.Message, error) {
	return n.members.Change(ctx, by, req)
}

// Close writes the node's counts to the logs and hands over its leaderships, both
// as far as ctx allows, notifies the peers, and stops. It returns the node's tokens, so
// that later checks find none, and loses nothing that was reported. Answer callers before.
func (n *Node) Close(ctx context.Context) error {
	var errs []error
	n.closed.Do(func() {
		n.ReleaseClients()
		n.Decider.Stop(ctx)
		n.accounts.Drain(ctx) // before the recorder finishes: account operations are in the history
		n.Recorder.Finish(ctx)
		if n.host != nil {
			n.ranges.CheckpointAll(ctx)
			errs = append(errs, n.host.Close(ctx))
		}
		n.closeParts()
		if n.net != nil {
			n.broadcast(&peerv1.Beacon{Leaving: true})
			time.Sleep(leaveGrace)
			errs = append(errs, n.net.Close())
		} else {
			errs = append(errs, n.cfg.Listener.Close())
		}
		errs = append(errs, n.clients.Close(), n.closeJournal(), n.Recorder.Close(), n.lock.Close())
	})
	return errors.Join(errs...)
}

// closeParts stops the parts that need no context, and waits for the node's goroutines.
func (n *Node) closeParts() {
	n.cancel()
	n.gather.Close()
	n.members.Close()
	n.ranges.Close()
	n.Decider.Close()
	n.Store.Close()
	n.accounts.Close()
	n.backups.Close()
	n.done.Wait()
}

// leaveGrace gives the leaving beacon time to be sent before the connections close.
const leaveGrace = 20 * time.Millisecond

// Kill stops the node without notifying its peers, as a crash would. It is for tests.
func (n *Node) Kill() error {
	var errs []error
	n.closed.Do(func() {
		n.clients.Cut()
		errs = append(errs, n.net.Close(), n.host.Kill())
		n.closeParts()
		errs = append(errs, n.clients.Close(), n.closeJournal(), n.Recorder.Close(), n.lock.Close())
	})
	return errors.Join(errs...)
}
