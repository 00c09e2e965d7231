package raftgroup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/internal/quota"
)

// MaxEntry is the maximum size of one log entry's data in bytes. It keeps the entry within one
// frame.
const MaxEntry = 12 << 20

// Errors of Apply, TransferTo and membership changes. All but ErrClosed and ErrTooLarge are
// retryable; retry ErrNotLeader on another node.
var (
	// ErrNotLeader means that this replica is not the leader. Nothing happened; ask the leader.
	ErrNotLeader = errors.New("not the leader")
	// ErrTransferring means that a leadership transfer is in progress. Nothing happened; retry in
	// a few milliseconds, probably on another node.
	ErrTransferring = errors.New("leadership is being transferred")
	// ErrOverloaded means that the log did not accept the entry in time. Nothing happened.
	ErrOverloaded = errors.New("log is overloaded")
	// ErrUncertain means that this replica lost leadership, the deadline passed or the process
	// stopped while the entry was in flight. The entry may or may not be committed later. Retry
	// only if applying it twice is harmless.
	ErrUncertain = errors.New("outcome unknown: the entry may be committed later")
	// ErrTooLarge means that the data exceeds MaxEntry.
	ErrTooLarge = errors.New("entry too large")
	// ErrNotReady means that a replica cannot be given leadership or a vote now. The error text
	// says why.
	ErrNotReady = errors.New("replica is not ready")
	// ErrBusy means that another membership change is in progress. Nothing happened; retry in a
	// moment.
	ErrBusy = errors.New("another change of the members is under way")
	// ErrQuorum means that a membership change would risk the quorum. Nothing happened; retry
	// when more voters respond.
	ErrQuorum = errors.New("the change would risk the quorum")
	// ErrLeads means that the replica to remove is the leader. Nothing happened; transfer
	// leadership first.
	ErrLeads = errors.New("the replica leads the group")
	// ErrClosed means that the host or the group is closed.
	ErrClosed = errors.New("closed")
)

// StateMachine is the state that a group replicates. Raft calls its methods one at a time, except
// for the function that Snapshot returns.
//
// It must be empty when the group is opened: the group restores it from its own files. It must be
// deterministic, and it must not fail: return errors meant for users as results.
type StateMachine interface {
	// Apply applies a committed entry. Group.Apply returns its result on the node that proposed
	// the entry.
	Apply(index, term uint64, data []byte) any
	// Snapshot returns a function that writes the state as of this call. Raft applies further
	// entries while the function runs, so it must work on a copy.
	Snapshot() (func(w io.Writer) error, error)
	// Restore replaces the state with one that a snapshot function wrote. If it fails, the group
	// cannot continue and the process ends.
	Restore(r io.Reader) error
}

// Timing sets how fast a group detects a lost leader and elects a new one.
type Timing struct {
	Heartbeat time.Duration // how long a follower waits to hear from a leader
	Election  time.Duration // how long a candidate waits for votes
	Lease     time.Duration // how long a leader without a quorum keeps leading
	Commit    time.Duration // how often an idle leader sends the commit index
}

// DefaultTiming suits one data center: 64 idle groups use about 3 % of one core on a node, and a
// leader that is known to be dead is replaced in about 0.6 s.
func DefaultTiming() Timing {
	return Timing{Heartbeat: time.Second, Election: time.Second, Lease: 500 * time.Millisecond, Commit: time.Second}
}

// Validate returns all errors, joined.
func (t Timing) Validate() error {
	var errs []error
	if t.Heartbeat < 500*time.Millisecond {
		errs = append(errs, fmt.Errorf("heartbeat: %v; at least 500ms, or a busy CPU costs leaders", t.Heartbeat))
	}
	if t.Election < t.Heartbeat {
		errs = append(errs, fmt.Errorf("election: %v; at least heartbeat (%v)", t.Election, t.Heartbeat))
	}
	if low := t.Heartbeat/5 + 200*time.Millisecond; t.Lease < low {
		errs = append(errs, fmt.Errorf("lease: %v; at least heartbeat/5 + 200ms (%v), or a late heartbeat ends it", t.Lease, low))
	}
	if t.Lease >= t.Heartbeat {
		errs = append(errs, fmt.Errorf("lease: %v; below heartbeat (%v), or elections cannot be hurried", t.Lease, t.Heartbeat))
	}
	if t.Commit < time.Millisecond {
		errs = append(errs, fmt.Errorf("commit: %v; at least 1ms", t.Commit))
	}
	return errors.Join(errs...)
}

// rpcTimeout is the timeout of every Raft call. If it were more than twice the election timeout,
// a hanging transfer could block a later leader forever.
func (t Timing) rpcTimeout() time.Duration { return 2 * t.Election }

// DefaultSlowDisk is the mean append duration from which a disk counts as slow: half the time
// that a leader may be silent.
const DefaultSlowDisk = 500 * time.Millisecond

// Config configures a Host.
type Config struct {
	Self   quota.NodeID
	Dir    string // holds raft/ and snapshots/
	Net    *transport.Net
	Timing Timing // DefaultTiming when zero
	Logger *slog.Logger

	// ReplicaProgress asks another node how far its replica of a group has got; the node answers
	// with its Group.Progress. If it is nil, this node transfers no leadership.
	ReplicaProgress func(ctx context.Context, node quota.NodeID, group uint32) (lastIndex uint64, lastContact time.Duration, err error)

	// MinFree is the minimum free space, in bytes, on the disk of Dir. With less, this node gives
	// up the groups it leads, and a replica whose writes failed stays out of service. Zero means
	// DefaultMinFree; a negative value disables the check.
	MinFree int64

	// SlowDisk is the limit on the mean duration of the last few log appends. At or above it,
	// this node transfers its groups to nodes with faster disks, and accepts no leadership until
	// its disk has been fast for a minute. Zero means 500ms; a negative value disables the check.
	SlowDisk time.Duration

	// Appended is called with the duration of each append to a log, and of each probe of a slow
	// disk, from several goroutines at once. Nil ignores them.
	Appended func(took time.Duration)

	// Unfit reports that this node should not lead now. An unfit node transfers the groups that
	// it leads or wins to nodes that are not unfit, and accepts no leadership. Nil means always
	// fit.
	Unfit func() bool

	BalanceEvery time.Duration // interval of the balancer; 1s when zero
	BalanceAfter time.Duration // how long a node must be connected, and the current leader have led, before the node gets leadership; 10s when zero
}

func (c *Config) fill() {
	if c.Timing == (Timing{}) {
		c.Timing = DefaultTiming()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Unfit == nil {
		c.Unfit = func() bool { return false }
	}
	if c.MinFree == 0 {
		c.MinFree = DefaultMinFree
	}
	if c.SlowDisk == 0 {
		c.SlowDisk = DefaultSlowDisk
	}
	if c.BalanceEvery <= 0 {
		c.BalanceEvery = time.Second
	}
	if c.BalanceAfter <= 0 {
		c.BalanceAfter = 10 * time.Second
	}
}

func (c *Config) validate() error {
	errs := []error{c.Timing.Validate()}
	if c.Self == "" || c.Dir == "" || c.Net == nil {
		errs = append(errs, errors.New("self, dir and net must be set"))
	}
	return errors.Join(errs...)
}

// GroupOptions configures one group on this node.
type GroupOptions struct {
	ID uint32 // MetaGroup, or OfRange; the group's snapshots are in snapshots/<GroupName>/

	// Voters and Nonvoters are the members of a fresh group, preferred leader first. Every node
	// must use the same lists. The first voter bootstraps the group if it finds no state. After
	// that, the group's own log defines who votes: see Members.
	Voters    []quota.NodeID
	Nonvoters []quota.NodeID
	// Join means that the group already exists on other nodes: this replica never bootstraps but
	// waits for the leader to add it. Voters may be empty then.
	Join bool

	FSM    StateMachine
	Commit time.Duration // overrides Timing.Commit

	// The group calls its callbacks one at a time, in order. They must not block, because the
	// next change waits for them, and must not call Close.

	// FirstEntry returns the first entry of a term, which serves as the barrier. The leader
	// proposes it before it serves.
	FirstEntry func() []byte
	// OnLeading is called when this replica has applied the barrier of that term.
	OnLeading func(term uint64)
	// OnFollowing is called when this replica loses leadership, or when it won and lost
	// leadership before it applied the barrier.
	OnFollowing func()
	// OnLeader is called when this replica sees a different leader; "" means unknown. It is also
	// called once with "" if no leader has reached this replica within two heartbeat timeouts of
	// its start.
	OnLeader func(leader quota.NodeID)
}

func (o *GroupOptions) validate() error {
	switch {
	case len(o.Voters) == 0 && !o.Join:
		return errors.New("voters: none; at least one, or join")
	case o.FSM == nil || o.FirstEntry == nil:
		return errors.New("no state machine, or no first entry")
	}
	return nil
}

func (o *GroupOptions) fill(t Timing) {
	if o.Commit <= 0 {
		o.Commit = t.Commit
	}
	if o.OnLeading == nil {
		o.OnLeading = func(uint64) {}
	}
	if o.OnFollowing == nil {
		o.OnFollowing = func() {}
	}
	if o.OnLeader == nil {
		o.OnLeader = func(quota.NodeID) {}
	}
}
