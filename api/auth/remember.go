package auth

import (
	"sync"
	"time"
)

// maxRemembered bounds what is remembered of certificates, and of JWTs. At the
// bound all is forgotten: it is found out again at the cost of one check each.
const maxRemembered = 4096

// memory remembers callers by what proved them, each until a time.
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
	if m.have == nil || len(m.have) >= maxRemembered {
		m.have = make(map[K]remembered)
	}
	m.have[k] = remembered{c, until}
}
