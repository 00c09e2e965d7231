package benchtest

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime is what the calling thread has used of a processor.
func threadTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic("benchtest: no clock of a thread's processor time: " + err.Error())
	}
	return time.Duration(ts.Nano())
}
