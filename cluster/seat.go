package cluster

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/snapshotio"
	"github.com/quorate/quorate/leader"
)

// seat is a range that has a replica here: the ledger while this node leads
// it, and the levels in its log.
type seat struct {
	id   quota.RangeID
	node *Node
	fsm  *rangeFSM

	mu     sync.Mutex
	ledger *leader.Ledger // nil unless this node leads
	// unsaved is a checkpoint that the log has not taken yet, of this ledger.
	unsaved *raftlogv1.Checkpoint
	number  quota.Seq    // of unsaved in the ledger
	resets  recentResets // of this ledger

	leads atomic.Uint64 // term of ledger, 0 without one: to be read without mu

	committed chan struct{} // closed when a checkpoint is, guarded by mu; nil while nobody waits

	backlog backlog

	hasty  atomic.Bool // is to be written at once
	saving sync.Mutex  // held while a checkpoint is written; locked before mu
}

// grownFor is how long after a join a new leader reckons with grants that were made before it
// and that no checkpoint holds: a lease, a checkpoint, and the offset of two clocks.
const grownFor = 10 * time.Second

// lead takes the range over: everything committed before is applied here.
func (s *seat) lead(term quota.Term) {
	n := s.node
	mono := n.clock.mono() // before now, so that no line seems older than it is
	now := n.clock.now()
	v := n.members.View()
	ids := v.IDs
	l := leader.New(leader.Config{
		Sync: n.cfg.Sync, MaxKeys: n.cfg.MaxKeys, First: s.fsm.levels.first(), Overrides: n.meta,
		Fewest: max(1, v.Table.JoinedBefore(time.Unix(0, int64(now)).Add(-grownFor))), // 0 would be unset
	}, s.id, term, n.cfg.Self, ids, n.meta.Current(), s.fsm.levels.all(now, mono), now)
	s.mu.Lock()
	s.end()
	s.ledger = l
	s.leads.Store(uint64(term))
	s.mu.Unlock()
	s.fsm.history.Lead(now, term)
	// Limits that changed while the ledger was made have missed it.
	s.with(func(l *leader.Ledger, now quota.Time) { l.SetLimits(now, n.meta.Current()) })
	for _, id := range n.routes.deadNodes() { // a death after this tells the seats itself
		s.with(func(l *leader.Ledger, now quota.Time) { l.MemberGone(now, id, n.net.EndedBefore(id)) })
	}
	s.with(n.suspectAll)
	n.log.Info("leads range", "range", s.id, "term", term)
	n.routes.set(s.id, n.cfg.Self, term)
	n.post(func(quota.Time) { n.agg.SetLeader(s.id, n.cfg.Self, term) })
	n.announce()
}

// follow gives the range up.
func (s *seat) follow() {
	s.mu.Lock()
	led := s.ledger != nil
	s.end()
	s.mu.Unlock()
	s.fsm.history.Follow()
	if led {
		s.node.log.Info("no longer leads range", "range", s.id)
		s.node.routes.clear(s.id, s.node.cfg.Self)
		s.node.tellLost([]quota.RangeID{s.id})
		s.node.announce()
	}
}

// end drops the ledger, if there is one, with s.mu held.
func (s *seat) end() {
	if s.ledger != nil {
		s.node.live.keep(s.ledger)
		s.node.Recorder.Ended(s.node.clock.now(), s.id, s.ledger)
	}
	s.ledger, s.unsaved, s.resets = nil, nil, recentResets{}
	s.leads.Store(0)
}

// with runs f on the ledger if this node leads the range.
func (s *seat) with(f func(l *leader.Ledger, now quota.Time)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ledger == nil {
		return false
	}
	f(s.ledger, s.node.clock.now())
	return true
}

// report books a report. An answer without entries is no answer, except to what ends the
// list of everything; they are in room, as far as that is enough.
func (s *seat) report(r *quota.Report, room []quota.GrantEntry) (g quota.Grant, ok bool) {
	s.mu.Lock()
	return s.reportLocked(r, room)
}

// reportLocked is report with s.mu held, which it unlocks.
func (s *seat) reportLocked(r *quota.Report, room []quota.GrantEntry) (g quota.Grant, ok bool) {
	wants := false
	var pushed []quota.Grant
	func() {
		defer s.mu.Unlock()
		if s.ledger == nil {
			return
		}
		var err error
		if g, err = s.ledger.ReportInto(room, s.node.clock.now(), r); err != nil {
			s.node.stats.refusedReports.Inc()
			return
		}
		ok, wants = len(g.Entries) > 0 || r.Full, s.ledger.Wants()
		pushed = s.ledger.Pushed()
	}()
	s.node.push(pushed)
	if wants {
		s.hasten()
	}
	return g, ok
}

// hasten has the next checkpoint written at once, once however often it is asked.
func (s *seat) hasten() {
	if s.hasty.CompareAndSwap(false, true) {
		s.node.hasty <- s // has room for every seat
	}
}

// maxCheckpoint bounds the levels in one log entry; leader.MaxCheckpoint bounds their bytes.
const maxCheckpoint = 4096

// checkpoint writes the levels that moved to the range's log, in as many
// entries as it takes; or only what members wait for, which goes first even where
// everything is being written. What the log does not take is tried again at the next
// call: a key that nobody uses moves no more.
func (s *seat) checkpoint(ctx context.Context, all bool) {
	for s.checkpointPart(ctx, all) {
	}
}

// checkpointPart writes one entry, and reports whether there is more to write.
func (s *seat) checkpointPart(ctx context.Context, all bool) (more bool) {
	s.saving.Lock()
	defer s.saving.Unlock()
	term, cp, more := s.moved(all)
	if cp == nil {
		return false
	}
	if err := s.write(ctx, cp); err != nil {
		s.node.stats.failedCheckpoints.Inc()
		s.node.log.Debug("checkpoint failed", "range", s.id, "err", err)
		return false
	}
	s.node.stats.checkpoints.Inc()
	s.saved(term)
	return more
}

// saved tells the ledger that its checkpoint is in the log, and hands out what
// members had to wait for.
func (s *seat) saved(term quota.Term) {
	var grants []quota.Grant
	wants := false
	s.with(func(l *leader.Ledger, now quota.Time) {
		if l.Term() != term {
			return
		}
		s.unsaved = nil
		grants = l.Saved(now, s.number)
		if s.committed != nil {
			close(s.committed)
			s.committed = nil
		}
		wants = l.Wants()
	})
	s.node.hand(grants)
	if wants { // somebody came while it was being written
		s.hasten()
	}
}

// moved returns the next checkpoint to write, nil when there is none, and whether another is to
// follow. What members wait for is in one of its own: the log takes that sooner than many levels.
func (s *seat) moved(all bool) (term quota.Term, cp *raftlogv1.Checkpoint, more bool) {
	s.with(func(l *leader.Ledger, now quota.Time) {
		term, cp, more = l.Term(), s.unsaved, all
		if cp != nil {
			return
		}
		levels := l.CheckpointWanted(now, maxCheckpoint)
		if len(levels) == 0 && all {
			levels, all = l.Checkpoint(now, maxCheckpoint), false
		}
		if more = all || l.More(); len(levels) == 0 {
			return
		}
		s.number = l.Written()
		cp = &raftlogv1.Checkpoint{AtUnixNanos: int64(now)}
		for _, kl := range levels {
			cp.Levels = append(cp.Levels, encodeLevel(kl))
		}
		s.unsaved = cp
	})
	return term, cp, more
}

func (s *seat) write(ctx context.Context, cp *raftlogv1.Checkpoint) error {
	g := s.node.host.Group(group(s.id))
	if g == nil { // the node is closing
		return raftgroup.ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err := g.Apply(ctx, snapshotio.Encode(&raftlogv1.RangeCommand{Change: &raftlogv1.RangeCommand_Checkpoint{Checkpoint: cp}}))
	return err
}
