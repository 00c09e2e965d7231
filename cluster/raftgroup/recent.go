package raftgroup

import (
	"slices"
	"sync"

	"github.com/hashicorp/raft"
)

// Bounds of recentEntries. The newest entry is kept only if it fits.
const (
	maxRecent      = 16
	maxRecentBytes = 64 << 10
)

// recentEntries are the last entries of a group's log, in memory and without a gap. A leader reads
// them for every message to every follower: those that it sends, and the one before them.
type recentEntries struct {
	mu    sync.Mutex
	list  []raft.Log
	bytes int
}

func sizeOf(l *raft.Log) int { return len(l.Data) + len(l.Extensions) }

// before prepares for an append: it forgets everything unless the new entries follow on.
func (r *recentEntries) before(added []*raft.Log) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.list); n > 0 && (len(added) == 0 || added[0].Index != r.list[n-1].Index+1) {
		r.clear()
	}
}

// add adds entries that are stored, and drops the oldest beyond the bounds.
func (r *recentEntries) add(added []*raft.Log) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range added {
		r.list = append(r.list, *l)
		r.bytes += sizeOf(l)
	}
	drop := 0
	for len(r.list)-drop > maxRecent || r.bytes > maxRecentBytes {
		r.bytes -= sizeOf(&r.list[drop])
		drop++
	}
	r.list = slices.Delete(r.list, 0, drop) // which clears what it moves from
}

// get returns whether an entry is there, and copies it.
func (r *recentEntries) get(index uint64, out *raft.Log) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.list) == 0 || index < r.list[0].Index || index-r.list[0].Index >= uint64(len(r.list)) {
		return false
	}
	*out = r.list[index-r.list[0].Index]
	return true
}

func (r *recentEntries) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clear()
}

func (r *recentEntries) clear() { r.list, r.bytes = nil, 0 }
