package client

import (
	"sync"

	"github.com/quorate/quorate/internal/quota"
)

// overrides are the overrides of used keys, as sent by the node. At most as many as there may be
// keys.
type overrides struct {
	mu   sync.RWMutex
	keys map[quota.Key]received
}

// received is an override and the attachment that sent it last.
type received struct {
	*quota.Override
	by uint64
}

// Override returns the override of a key, or nil.
func (o *overrides) Override(k quota.Key) *quota.Override {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.keys[k].Override
}

func (o *overrides) set(v *quota.Override, by uint64, most int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.keys == nil {
		o.keys = map[quota.Key]received{}
	}
	if _, known := o.keys[v.Key]; !known && len(o.keys) >= most {
		return false
	}
	o.keys[v.Key] = received{v, by}
	return true
}

func (o *overrides) remove(k quota.Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.keys, k)
}

// confirm returns the keys of a grant whose overrides came from an earlier session and not from
// this one: they have ended. A node sends an override before the first grant of its key.
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
