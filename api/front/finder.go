package front

import (
	"sync"
	"sync/atomic"

	"github.com/quorate/quorate/internal/descriptor"
	"github.com/quorate/quorate/internal/quota"
)

// Finder finds limits for the descriptors of Envoy's protocols. It builds its index on the first
// request after a change of the limits. The zero value is ready to use. Methods are safe for
// concurrent use.
type Finder struct {
	current atomic.Pointer[descriptor.Index]
	mu      sync.Mutex // held while an index is built
}

// Of returns the index of the current limits.
func (f *Finder) Of(limits *quota.Limits) *descriptor.Index {
	if x := f.current.Load(); x != nil && x.Limits() == limits {
		return x
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if x := f.current.Load(); x != nil && x.Limits() == limits {
		return x
	}
	x := descriptor.NewIndex(limits)
	f.current.Store(x)
	return x
}
