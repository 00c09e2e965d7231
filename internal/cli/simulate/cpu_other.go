//go:build !unix

package simulate

import "time"

var started = time.Now()

// cpuSeconds returns wall time: a run is one goroutine that never waits.
func cpuSeconds() float64 { return time.Since(started).Seconds() }
