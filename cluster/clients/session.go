package clients

import (
	"sync"

	"github.com/quorate/quorate/internal/attach"
	"github.com/quorate/quorate/internal/quota"
)

// session is one attachment of a client process.
type session struct {
	*Service
	id        quota.NodeID
	owner     string
	inc       quota.Incarnation
	term      quota.Term
	may       func(namespace string) bool // nil allows all
	mayReport func(namespace string) bool // nil allows all
	out       *attach.Outbox

	version  uint64 // of the limits last sent; guarded by Service.mu
	settling settling

	keysMu sync.Mutex                 // always locked last
	open   map[quota.Key]sentOverride // keys open in the client ledger, and the keys in parted
	parted []quota.Key                // closed keys whose overrides the client may still have, oldest first
}

// Report implements attach.Session.
func (s *session) Report(r *quota.Report) {
	s.reports.Inc()
	s.mu.Lock()
	now := s.node.Now()
	g, err := s.ledger.Report(now, r)
	if err == nil {
		s.journal.note(now, s.node.Limits(), r, &g)
		s.sendOverrides(r, &g)
		s.out.Put(grantMessage(&g)) // under the lock, to keep grants in order
		s.push(now)
	}
	s.mu.Unlock()
	if err != nil {
		s.node.ReportRefused()
	}
	if s.cfg.Aggregator.Urgent() {
		s.node.Wake()
	}
}

// Refused implements attach.Session.
func (s *session) Refused(limit quota.LimitName, u quota.Units) { s.cfg.Aggregator.Unfit(limit, u) }

// End implements attach.Session.
func (s *session) End() {
	s.settling.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger.Detach(s.node.Now(), s.id, s.inc, s.term)
	if s.sessions[s.id] == s {
		delete(s.sessions, s.id)
		s.places.Release(s.owner, 1)
	}
	if s.ended != nil && len(s.sessions) == 0 {
		close(s.ended)
		s.ended = nil
	}
}
