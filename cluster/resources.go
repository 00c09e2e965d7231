package cluster

import (
	"slices"
	"strings"
	"sync"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/raftgroup"
)

// maxFaults and maxFault bound the faults in a beacon: their number, and the bytes of each.
const (
	maxFaults = 8
	maxFault  = 512
)

// resources measures the load of this process for beacons and the status, at most once in
// resourcesEvery. It is safe for concurrent use.
type resources struct {
	dir     string
	started time.Time

	mu   sync.Mutex
	at   time.Time     // of the last measurement
	used time.Duration // processor time at the last measurement
	last *peerv1.Resources
}

// resourcesEvery is shorter than beaconEvery, so that every beacon of the loop measures again, and
// those in between, which announce changes, do not.
const resourcesEvery = beaconEvery / 2

func newResources(dir string) *resources {
	return &resources{dir: dir, started: time.Now()}
}

// read returns the latest measurement. The result must not be changed.
func (r *resources) read() *peerv1.Resources {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if r.last != nil && now.Sub(r.at) < resourcesEvery {
		return r.last
	}
	m := &peerv1.Resources{UptimeNanos: int64(now.Sub(r.started))}
	if used, resident, err := processUsage(); err == nil {
		m.MemoryBytes = &resident
		if !r.at.IsZero() {
			m.Cpu = new(max(0, (used-r.used).Seconds()/now.Sub(r.at).Seconds()))
		}
		r.used = used
	}
	if free, err := raftgroup.FreeSpace(r.dir); err == nil {
		m.DiskFreeBytes = &free
	}
	r.at, r.last = now, m
	return m
}

// beaconFaults returns the faults as a beacon carries them.
func beaconFaults(faults []string) []string {
	out := slices.Clone(faults[:min(len(faults), maxFaults)])
	for i, f := range out {
		if len(f) > maxFault {
			out[i] = strings.ToValidUTF8(f[:maxFault], "")
		}
	}
	return out
}
