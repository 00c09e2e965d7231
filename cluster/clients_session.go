package cluster

import (
	"sync"

	"github.com/quorate/quorate/internal/attach"
	"github.com/quorate/quorate/internal/quota"
)

// session is one attachment of a client process.
type session struct {
	*clients
	id    quota.NodeID
	owner string
	inc   quota.Incarnation
	term  quota.Term
	may   func(namespace string) bool // nil: all
	out   *attach.Outbox

	version  uint64 // of the limits that were told; guarded by clients.mu
	settling settling

	keysMu sync.Mutex                 // taken last
	open   map[quota.Key]overrideTold // keys that the branch has open, and those of parted
	parted []quota.Key                // keys let go of whose overrides the client may still have, oldest first
}

// Report implements attach.Session.
func (s *session) Report(r *quota.Report) {
	n := s.node
	n.stats.clientReports.Inc()
	s.mu.Lock()
	now := n.clock.now()
	g, err := s.branch.Report(now, r)
	if err == nil {
		s.journal.note(now, n.meta.Current(), r, &g)
		s.tellOverrides(r, &g)
		s.out.Put(grantMessage(&g)) // under the lock: grants are in order
		s.push(now)
	}
	s.mu.Unlock()
	if err != nil {
		n.stats.refusedReports.Inc()
	}
	if n.agg.Urgent() {
		n.poke()
	}
}

// Refused implements attach.Session.
func (s *session) Refused(limit quota.LimitName, u quota.Units) { s.node.agg.Unfit(limit, u) }

// End implements attach.Session.
func (s *session) End() {
	s.settling.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.branch.Detach(s.node.clock.now(), s.id, s.inc, s.term)
	if s.sessions[s.id] == s {
		delete(s.sessions, s.id)
		s.disown(s.owner)
	}
	if s.ended != nil && len(s.sessions) == 0 {
		close(s.ended)
		s.ended = nil
	}
}
