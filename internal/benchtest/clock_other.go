//go:build !linux

package benchtest

import "time"

var start = time.Now()

// threadTime is the time that passes, where no other clock is at hand.
func threadTime() time.Duration { return time.Since(start) }
