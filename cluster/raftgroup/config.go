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

// MaxEntry bounds the data of one log entry in bytes: a frame must hold it.
const MaxEntry = 12 << 20

// Errors of Apply, TransferTo and changes of members. All but ErrClosed and
// ErrTooLarge may be tried again, ErrNotLeader elsewhere.
var (
	// ErrNotLeader says that this replica does not lead. Nothing happened; ask
	// the leader.
	ErrNotLeader = errors.New("not the leader")
	// ErrTransferring says that leadership is being handed over. Nothing
	// happened; try again in a few milliseconds, likely elsewhere.
	ErrTransferring = errors.New("leadership is being transferred")
	// ErrOverloaded says that the log did not take the entry in time. Nothing
	// happened.
	ErrOverloaded = errors.New("log is overloaded")
	// ErrUncertain says that leadership, the time or the process ended while
	// the entry was under way: it may yet be committed, or not. Repeat it only
	// if applying it twice does no harm.
	ErrUncertain = errors.New("outcome unknown: the entry may be committed later")
	// ErrTooLarge says that the data exceeds MaxEntry.
	ErrTooLarge = errors.New("entry too large")
	// ErrNotReady says why leadership or a vote is not given to a replica now.
	ErrNotReady = errors.New("replica is not ready")
	// ErrBusy says that another change of the members is under way. Nothing
	// happened; try again in a moment.
	ErrBusy = errors.New("another change of the members is under way")
	// ErrQuorum says that a change of the members would risk the quorum.
	// Nothing happened; try again when more voters answer.
	ErrQuorum = errors.New("the change would risk the quorum")
	// ErrLeads says that the replica to be removed leads the group. Nothing
	// happened; transfer leadership first.
	ErrLeads = errors.New("the replica leads the group")
	// ErrClosed says that the host or the group is closed.
	ErrClosed = errors.New("closed")
)

// StateMachine is what a group replicates. Its methods are called one at a
// time, except for the function that Snapshot returns.
//
// It must be empty when the group is opened: what it held is restored from the
// group's own files. It must be deterministic, and it must not fail: an error
// that users should see is a result.
type StateMachine interface {
	// Apply applies a committed entry. The result is what Group.Apply returns
	// on the node that proposed it.
	Apply(index, term uint64, data []byte) any
	// Snapshot returns a function that writes the state as of now. It runs
	// while further entries are applied, so it needs a copy.
	Snapshot() (func(w io.Writer) error, error)
	// Restore replaces the state with one written by a snapshot. After an
	// error the group cannot go on, and the process ends.
	Restore(r io.Reader) error
}

// Timing is how fast leaders are lost and found.
type Timing struct {
	Heartbeat time.Duration // followers wait so long for a leader
	Election  time.Duration // candidates wait so long for votes
	Lease     time.Duration // leaders step down without a quorum for so long
	Commit    time.Duration // idle leaders tell the commit index so often
}

// DefaultTiming suits one data centre: 64 idle groups cost a node about 3 % of
// a core, and a leader whose death is seen is replaced in about 0.6 s.
func DefaultTiming() Timing {
	return Timing{Heartbeat: time.Second, Election: time.Second, Lease: 500 * time.Millisecond, Commit: time.Second}
}

// Validate returns every fault, joined.
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

// rpcTimeout bounds every call of Raft. More than twice the election timeout
// lets a hanging transfer block a later leader for ever.
func (t Timing) rpcTimeout() time.Duration { return 2 * t.Election }

// DefaultSlowDisk is when a disk counts as slow: half of what a leader may be silent for.
const DefaultSlowDisk = 500 * time.Millisecond

// Config is what a Host needs to know.
type Config struct {
	Self   quota.NodeID
	Dir    string // holds raft/ and snapshots/
	Net    *transport.Net
	Timing Timing // DefaultTiming when zero
	Logger *slog.Logger

	// ReplicaProgress asks another node how far its replica of a group is: the
	// answer of Group.Progress there. Without it no leadership is handed over.
	ReplicaProgress func(ctx context.Context, node quota.NodeID, group uint32) (lastIndex uint64, lastContact time.Duration, err error)

	// MinFree is the free space on the disk of Dir, in bytes, under which this
	// node gives up what it leads, and without which a replica that could not
	// write does not come back. DefaultMinFree when zero; below zero is never.
	MinFree int64

	// SlowDisk is how long an append to the logs may take, on average of the last few,
	// until this node gives what it leads to others whose disks are faster, and takes
	// nothing until its own has been for a minute. 500ms when zero; below zero is never.
	SlowDisk time.Duration

	// Unfit says that this node should lead nothing now. It gives what it leads, or wins, to
	// others that are not unfit, and takes nothing. Nil is never.
	Unfit func() bool

	BalanceEvery time.Duration // how often the balancer looks; 1s when zero
	BalanceAfter time.Duration // a node must be up, and another have led, so long before it is given leadership; 10s when zero
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

// GroupOptions describe one group on this node.
type GroupOptions struct {
	ID   uint32 // in messages
	Name string // of its files: raft/<name>.db and snapshots/<name>/

	// Voters and Nonvoters are what a fresh group begins with, preferred leader
	// first, the same everywhere. The first of them bootstraps the group if it
	// finds no state. Later the group's own log says who votes: see Members.
	Voters    []quota.NodeID
	Nonvoters []quota.NodeID
	// Join says that the group exists elsewhere: this replica never bootstraps,
	// it waits for the leader to add it. Voters may be empty then.
	Join bool

	FSM    StateMachine
	Commit time.Duration // instead of Timing.Commit

	// The callbacks are called one at a time per group, in order, and must not
	// block: the next change waits for them. They must not call Close.

	// FirstEntry returns the first entry of a term, the barrier. The leader proposes it before
	// it serves; nil proposes a barrier instead.
	FirstEntry func(term uint64) []byte
	// OnLeading says that the barrier of that term is applied here.
	OnLeading func(term uint64)
	// OnFollowing says that leadership is lost, or was won and lost again
	// before the barrier was applied.
	OnFollowing func()
	// OnLeader says that this replica sees another leader now; "" is unknown,
	// which it also says once if no leader has reached it for two heartbeat
	// timeouts after its start.
	OnLeader func(leader quota.NodeID)
}

func (o *GroupOptions) validate() error {
	switch {
	case quota.CheckName("name", o.Name) != nil:
		return quota.CheckName("name", o.Name)
	case len(o.Voters) == 0 && !o.Join:
		return fmt.Errorf("group %s: voters: none; at least one, or join", o.Name)
	case o.FSM == nil:
		return fmt.Errorf("group %s: no state machine", o.Name)
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
