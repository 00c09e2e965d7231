package cluster

import (
	"time"

	"github.com/prometheus/procfs"
)

// processUsage returns the processor time that this process has used and its resident memory in bytes.
func processUsage() (cpu time.Duration, resident uint64, err error) {
	p, err := procfs.Self()
	if err != nil {
		return 0, 0, err
	}
	s, err := p.Stat()
	if err != nil {
		return 0, 0, err
	}
	return time.Duration(s.CPUTime() * float64(time.Second)), uint64(s.ResidentMemory()), nil
}
