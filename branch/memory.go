package branch

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// memory remembers attachments that are settled, so that a last report that is
// repeated changes nothing.
type memory struct {
	at    map[attachment]struct{}
	queue []memo
}

type memo struct {
	attachment
	at quota.Time
}

const (
	// maxSettled bounds the attachments that are known to be settled.
	maxSettled = 1 << 16
	// settledFor is how long they are known at most: longer than anybody repeats
	// that an attachment is over.
	settledFor = time.Hour
)

func (m *memory) init() { m.at = map[attachment]struct{}{} }

func (m *memory) has(a attachment) bool {
	_, ok := m.at[a]
	return ok
}

func (m *memory) add(now quota.Time, a attachment) {
	if m.has(a) {
		return
	}
	m.at[a] = struct{}{}
	m.queue = append(m.queue, memo{a, now})
	if len(m.queue) > maxSettled {
		m.pop(1)
	}
}

func (m *memory) forget(now quota.Time) {
	n := 0
	for n < len(m.queue) && now.Sub(m.queue[n].at) >= settledFor {
		n++
	}
	m.pop(n)
}

func (m *memory) pop(n int) {
	for _, e := range m.queue[:n] {
		delete(m.at, e.attachment)
	}
	m.queue = m.queue[n:]
}
