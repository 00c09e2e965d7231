package account

import "github.com/quorate/quorate/internal/quota"

// Due reports whether a [Collect] at that time would delete anything.
func (s *Store) Due(at quota.Time) bool {
	s.init()
	at = max(at, s.now)
	if e, ok := s.accountExpiry.Min(); ok && e.at <= at {
		return true
	}
	if e, ok := s.appliedExpiry.Min(); ok && e.at <= at {
		return true
	}
	e, ok := s.endedOrder.Min()
	return ok && e.until <= at
}
