package client

import (
	"sync"

	"github.com/quorate/quorate/internal/quota"
)

// overrides are those of keys that the process has used, as its node told. At most
// as many as there may be keys.
type overrides struct {
	mu   sync.RWMutex
	keys map[quota.Key]told
}

// told is an override and the attachment that told it last.
type told struct {
	*quota.Override
	by uint64
}

// Override returns the override of a key; nil if there is none.
func (o *overrides) Override(k quota.Key) *quota.Override {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.keys[k].Override
}

func (o *overrides) set(v *quota.Override, by uint64, most int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.keys == nil {
		o.keys = map[quota.Key]told{}
	}
	if _, known := o.keys[v.Key]; !known && len(o.keys) >= most {
		return false
	}
	o.keys[v.Key] = told{v, by}
	return true
}

func (o *overrides) remove(k quota.Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.keys, k)
}

// confirm returns the keys of a grant whose overrides an earlier attachment told
// and this one has not: they have ended meanwhile. A node tells an override
// before the first grant of its key.
func (o *overrides) confirm(by uint64, g *quota.Grant) (gone []quota.Key) {
	o.mu.RLock()
	none := len(o.keys) == 0
	o.mu.RUnlock()
	if none {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range g.Entries {
		k := g.Entries[i].Key
		k.LimitName, _ = k.Base()
		if t, ok := o.keys[k]; ok && t.by < by {
			delete(o.keys, k)
			gone = append(gone, k)
		}
	}
	return gone
}
