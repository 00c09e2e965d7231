//go:build !linux

package elapsed

import "time"

func boottime() (time.Duration, bool) { return 0, false }
