package auth

import (
	"sync"
	"time"
)

// maxRemembered is the size of each memory. A new entry in a full memory replaces an arbitrary one,
// so that the callers need not all be verified again at once.
const maxRemembered = 4096

// memory caches callers by their credential, each until a deadline.
type memory[K comparable] struct {
	mu   sync.RWMutex
	have map[K]remembered
}

type remembered struct {
	caller *Caller
	until  time.Time
}

func (m *memory[K]) get(k K, now time.Time) *Caller {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if r, ok := m.have[k]; ok && now.Before(r.until) {
		return r.caller
	}
	return nil
}

func (m *memory[K]) put(k K, c *Caller, until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.have == nil {
		m.have = make(map[K]remembered)
	}
	if _, there := m.have[k]; !there && len(m.have) >= maxRemembered {
		for other := range m.have {
			delete(m.have, other)
			break
		}
	}
	m.have[k] = remembered{c, until}
}
