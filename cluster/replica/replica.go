package replica

import (
	"sync"
	"sync/atomic"
	"time"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
)

// Replica is this node's part of a range: what its log has made, and the ledger while this node leads it.
type Replica struct {
	ID      quota.RangeID
	Machine *Machine
	set     *Set

	mu     sync.Mutex
	ledger *leader.Ledger // nil unless this node leads
	// unsaved is a checkpoint that the log has not taken yet, of this ledger.
	unsaved *raftlogv1.Checkpoint
	number  quota.Seq    // of unsaved in the ledger
	resets  recentResets // of this ledger

	term atomic.Uint64 // of ledger, 0 without one: to be read without mu

	committed chan struct{} // closed when a checkpoint is, guarded by mu; nil while nobody waits

	backlog backlog

	urgent atomic.Bool // its checkpoint is wanted at once
	saving sync.Mutex  // held while a checkpoint is written; locked before mu
}

// grownFor is how long after a join a new leader reckons with grants that were made before it
// and that no checkpoint holds: a lease, a checkpoint, and the offset of two clocks.
const grownFor = 10 * time.Second

// Lead takes the range over: everything committed before is applied here.
func (r *Replica) Lead(term quota.Term) {
	s := r.set
	mono := s.cfg.Mono() // before now, so that no level seems older than it is
	now := s.cfg.Now()
	ids, joined := s.node.Members(time.Unix(0, int64(now)).Add(-grownFor))
	l := leader.New(leader.Config{
		Sync: s.cfg.Sync, MaxKeys: s.cfg.MaxKeys, First: r.Machine.levels.first(), Overrides: s.cfg.Overrides,
		Fewest: max(1, joined), // 0 would be unset
	}, r.ID, term, s.cfg.Self, ids, s.node.Committed(), r.Machine.levels.all(now, mono), now)
	r.mu.Lock()
	r.end()
	r.ledger = l
	r.term.Store(uint64(term))
	r.mu.Unlock()
	r.Machine.History.Lead(now, term)
	// What changed while the ledger was made has missed it: limits, and deaths. Later ones tell it themselves.
	r.With(func(l *leader.Ledger, now quota.Time) { l.SetLimits(now, s.node.Committed()) })
	for id, before := range s.node.Dead() {
		r.With(func(l *leader.Ledger, now quota.Time) { l.MemberGone(now, id, before) })
	}
	r.With(s.suspect)
	s.log.Info("leads range", "range", r.ID, "term", term)
	s.node.Leads(r.ID, term)
}

// Follow gives the range up.
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

// end drops the ledger, if there is one, with r.mu held.
func (r *Replica) end() {
	if r.ledger != nil {
		r.set.measured.keep(r.ledger)
		r.set.node.Ended(r.set.cfg.Now(), r.ID, r.ledger)
	}
	r.ledger, r.unsaved, r.resets = nil, nil, recentResets{}
	r.term.Store(0)
}

// With runs f on the ledger, under its lock, if this node leads the range.
func (r *Replica) With(f func(l *leader.Ledger, now quota.Time)) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ledger == nil {
		return false
	}
	f(r.ledger, r.set.cfg.Now())
	return true
}

// suspect tells a ledger which members have probably ended. It is told again and again,
// because a report that was on its way clears a suspicion.
func (s *Set) suspect(l *leader.Ledger, now quota.Time) {
	for _, id := range s.node.Suspects() {
		l.Suspect(now, id)
	}
}

// report books a report. An answer without entries is no answer, except to what ends the
// list of everything; they are in room, as far as that is enough.
func (r *Replica) report(in *quota.Report, room []quota.GrantEntry) (g quota.Grant, ok bool) {
	r.mu.Lock()
	return r.reportLocked(in, room)
}

// reportLocked is report with r.mu held, which it unlocks.
func (r *Replica) reportLocked(in *quota.Report, room []quota.GrantEntry) (g quota.Grant, ok bool) {
	wants := false
	var pushed []quota.Grant
	func() {
		defer r.mu.Unlock()
		if r.ledger == nil {
			return
		}
		var err error
		if g, err = r.ledger.ReportInto(room, r.set.cfg.Now(), in); err != nil {
			r.set.cfg.Refused.Inc()
			return
		}
		ok, wants = len(g.Entries) > 0 || in.Full, r.ledger.Wants()
		pushed = r.ledger.Pushed()
	}()
	for i := range pushed { // grants that answer no report: one that does not arrive is made again
		if g := &pushed[i]; g.To == r.set.cfg.Self {
			r.set.node.Deliver(g, false)
		} else {
			r.set.sendGrants(g.To, []*quota.Grant{g})
		}
	}
	if wants {
		r.requestCheckpoint()
	}
	return g, ok
}
