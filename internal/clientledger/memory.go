package clientledger

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// memory is a bounded set of sessions, or parts of last reports, that are over, so that a repeated
// last report changes nothing.
type memory[K comparable] struct {
	at    map[K]struct{}
	queue []memo[K]
}

type memo[K comparable] struct {
	what K
	at   quota.Time
}

const (
	// maxSettled bounds the entries.
	maxSettled = 1 << 16
	// settledFor is how long an entry is kept at most: longer than the end of a session is reported
	// again.
	settledFor = time.Hour
)

func (m *memory[K]) init() { m.at = map[K]struct{}{} }

func (m *memory[K]) has(a K) bool {
	_, ok := m.at[a]
	return ok
}

func (m *memory[K]) add(now quota.Time, a K) {
	if m.has(a) {
		return
	}
	m.at[a] = struct{}{}
	m.queue = append(m.queue, memo[K]{a, now})
	if len(m.queue) > maxSettled {
		m.pop(1)
	}
}

func (m *memory[K]) forget(now quota.Time) {
	n := 0
	for n < len(m.queue) && now.Sub(m.queue[n].at) >= settledFor {
		n++
	}
	m.pop(n)
}

func (m *memory[K]) pop(n int) {
	for _, e := range m.queue[:n] {
		delete(m.at, e.what)
	}
	m.queue = m.queue[n:]
}
