package events

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/quorate/quorate/internal/quota"
)

// Default and largest buffer of a watcher, in events.
const (
	DefaultBuffer = 1024
	MaxBuffer     = 65536
)

// Hub distributes events. The zero Hub is ready to use. It is safe for concurrent use and must not
// be copied.
type Hub struct {
	watchers atomic.Pointer[[]*watcher] // copied on write; nil without watchers
	mu       sync.Mutex                 // serializes writers of watchers
}

type watcher struct {
	filter quota.EventFilter
	events chan quota.Event
	lost   atomic.Uint64
}

// Watched reports whether there is a watcher. Without one, publishers need not make events.
func (h *Hub) Watched() bool { return h.watchers.Load() != nil }

// Publish sends an event to the watchers whose filter matches. It never blocks, and allocates only for
// an event that is kept.
func (h *Hub) Publish(e quota.Event) {
	if all := h.watchers.Load(); all != nil {
		publish(*all, e)
	}
}

// publish is a separate function so that Publish can be inlined.
func publish(all []*watcher, e quota.Event) {
	kept := false
	for _, w := range all {
		if !w.filter.Matches(&e) {
			continue
		}
		if len(w.events) == cap(w.events) {
			w.lost.Add(1)
			continue
		}
		if !kept {
			e.Key, kept = own(e.Key), true
		}
		select {
		case w.events <- e:
		default:
			w.lost.Add(1)
		}
	}
}

// own returns a copy of a key. The publisher's may share the memory of a large request, which an event
// would keep for as long as it waits.
func own(k quota.Key) quota.Key {
	all := k.Namespace + k.LimitName.Limit + k.Key
	n, l := len(k.Namespace), len(k.Namespace)+len(k.LimitName.Limit)
	return quota.Key{LimitName: quota.LimitName{Namespace: all[:n], Limit: all[n:l]}, Key: all[l:]}
}

// Watch starts a watch. buffer is how many events wait for a slow reader: DefaultBuffer if below 1,
// at most MaxBuffer. lost returns how many events did not fit so far. stop ends the watch; it may
// be called twice. The channel is never closed: after stop it receives at most the events that were
// being published at that time.
func (h *Hub) Watch(f quota.EventFilter, buffer int) (events <-chan quota.Event, lost func() uint64, stop func()) {
	if buffer < 1 {
		buffer = DefaultBuffer
	}
	f.Kinds = slices.Clone(f.Kinds)
	w := &watcher{filter: f, events: make(chan quota.Event, min(buffer, MaxBuffer))}
	h.change(func(all []*watcher) []*watcher { return append(all, w) })
	return w.events, w.lost.Load, func() {
		h.change(func(all []*watcher) []*watcher {
			return slices.DeleteFunc(all, func(o *watcher) bool { return o == w })
		})
	}
}

func (h *Hub) change(f func([]*watcher) []*watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []*watcher
	if now := h.watchers.Load(); now != nil {
		all = slices.Clone(*now)
	}
	if all = f(all); len(all) == 0 {
		h.watchers.Store(nil)
		return
	}
	h.watchers.Store(&all)
}
