package elapsed

import (
	"time"

	"golang.org/x/sys/unix"
)

func boottime() (time.Duration, bool) {
	var t unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t)
	return time.Duration(t.Nano()), err == nil
}
