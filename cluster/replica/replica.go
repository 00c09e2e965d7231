package replica

import (
	"sync"
	"sync/atomic"
	"time"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
)

// Replica is this node's copy of a range: the state that its log produces, and the ledger while this node leads it.
type Replica struct {
	ID      quota.RangeID
	Machine *Machine
	set     *Set

	mu     sync.Mutex
	ledger *leader.Ledger // nil unless this node leads the range
	// unsaved is a checkpoint of this ledger that the log has not accepted yet.
	unsaved *raftlogv1.Checkpoint
	number  quota.Seq    // the ledger's number of unsaved
	resets  recentResets // resets carried out in this ledger

	term atomic.Uint64 // term of ledger, or 0 without one; readable without mu

	committed chan struct{} // closed when a checkpoint is in the log; guarded by mu; nil while no caller waits

	backlog backlog

	urgent atomic.Bool // an immediate checkpoint is requested
	saving sync.Mutex  // held while a checkpoint is made or written; locked before mu
	more   bool        // another checkpoint must follow unsaved; guarded by saving
}

// grownFor is how long after a join a new leader allows for grants that were made before the join and
// that no checkpoint holds: a lease, a checkpoint, and the offset of two clocks.
const grownFor = 10 * time.Second

// Lead makes this node the leader of the range. All entries committed in earlier terms are applied by then.
func (r *Replica) Lead(term quota.Term) {
	s := r.set
	mono := s.cfg.Mono() // read before now, so that no level seems older than it is
	now := s.cfg.Now()
	ids, joined := s.node.Members(time.Unix(0, int64(now)).Add(-grownFor))
	l := leader.New(leader.Config{
		Sync: s.cfg.Sync, MaxKeys: s.cfg.MaxKeys, First: r.Machine.levels.first(), Overrides: s.cfg.Overrides,
		Fewest: max(1, joined), // 0 would mean unset
	}, r.ID, term, s.cfg.Self, ids, s.node.Committed(), r.Machine.levels.lines(now, mono), now)
	r.mu.Lock()
	r.end()
	r.ledger = l
	r.term.Store(uint64(term))
	r.mu.Unlock()
	r.Machine.History.Lead(now, term)
	// The ledger may have missed limits and deaths that changed while it was made. It gets later changes directly.
	r.With(func(l *leader.Ledger, now quota.Time) { l.SetLimits(now, s.node.Committed()) })
	for id, before := range s.node.Dead() {
		r.With(func(l *leader.Ledger, now quota.Time) { l.MemberGone(now, id, before) })
	}
	r.With(s.suspect)
	s.log.Info("leads range", "range", r.ID, "term", term)
	s.node.Leads(r.ID, term)
}

// Follow ends this node's leadership of the range.
func (r *Replica) Follow() {
	r.mu.Lock()
	led := r.ledger != nil
	r.end()
	r.mu.Unlock()
	r.Machine.History.Follow()
	if led {
		r.set.log.Info("no longer leads range", "range", r.ID)
		r.set.node.LeadsNoMore(r.ID)
	}
}

// Leads reports whether this node leads the range.
func (r *Replica) Leads() bool { return r.term.Load() != 0 }

// end drops the ledger, if any. The caller holds r.mu.
func (r *Replica) end() {
	if r.ledger != nil {
		r.set.measured.keep(r.ledger)
		r.set.node.Ended(r.set.cfg.Now(), r.ID, r.ledger)
	}
	r.ledger, r.unsaved, r.resets = nil, nil, recentResets{}
	r.term.Store(0)
}

// With runs f on the ledger, under its lock, and returns true. It returns false if this node does not lead the range.
func (r *Replica) With(f func(l *leader.Ledger, now quota.Time)) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ledger == nil {
		return false
	}
	f(r.ledger, r.set.cfg.Now())
	return true
}

// suspect marks the members that have probably ended as suspects in a ledger. It runs at every sweep,
// because a report that was still on its way clears a suspicion.
func (s *Set) suspect(l *leader.Ledger, now quota.Time) {
	for _, id := range s.node.Suspects() {
		l.Suspect(now, id)
	}
}

// report books a report. ok is false if the ledger does not take the report, or there is nothing to
// answer: the grant has no entries, and the report does not end a complete list. The grant's entries are
// in buf if it has the capacity.
func (r *Replica) report(in *quota.Report, buf []quota.GrantEntry) (g quota.Grant, ok bool) {
	r.mu.Lock()
	return r.reportLocked(in, buf)
}

// reportLocked is report for a caller that holds r.mu; it unlocks r.mu.
func (r *Replica) reportLocked(in *quota.Report, buf []quota.GrantEntry) (g quota.Grant, ok bool) {
	wants := false
	var pushed []quota.Grant
	func() {
		defer r.mu.Unlock()
		if r.ledger == nil {
			return
		}
		var err error
		if g, err = r.ledger.ReportInto(buf, r.set.cfg.Now(), in); err != nil {
			r.set.cfg.Refused.Inc()
			return
		}
		ok, wants = len(g.Entries) > 0 || in.Full, r.ledger.Wants()
		pushed = r.ledger.Pushed()
	}()
	r.push(pushed)
	if wants {
		r.requestCheckpoint()
	}
	return g, ok
}

// push sends grants that answer no report.
func (r *Replica) push(grants []quota.Grant) {
	for i := range grants {
		if g := &grants[i]; g.To == r.set.cfg.Self {
			r.set.node.Deliver(g, false)
		} else {
			r.set.sendGrants(g.To, []*quota.Grant{g})
		}
	}
}
