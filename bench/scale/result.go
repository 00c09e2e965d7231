package scale

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const sweepEvery = time.Second

// Result holds the counts of a cluster, without the warm-up.
type Result struct {
	Requests, Admitted      int64
	Entries                 int64 // of reports, including those of the leaders' own members
	Booked                  int64 // of these, booked at leaders
	Frames, Grants, Pushed  int64 // of reports, and of grants; grants that answer no report
	ReportBytes, GrantBytes int64 // packed, without the overhead of frames, TLS and TCP
	Lines                   int64 // of checkpoints
	// Member and Leader are processor time. Tend is the leaders' work of once a second. Decide is
	// the time of the requests, which is not a cost of being a member.
	Member, Leader, Tend, Decide time.Duration

	Open, Accounts int // at the end: keys of all members, and accounts of all ledgers
}

func (c *cluster) finish() {
	for _, m := range c.members {
		c.res.Open += m.agg.Len()
		for _, l := range m.ledgers {
			c.res.Accounts += l.Len()
		}
	}
}

// spent adds the processor time used since the given reading.
func (c *cluster) spent(on *time.Duration, since time.Duration) {
	*on += max(0, cpu()-since-c.over)
}

// cpu returns the processor time of this thread.
func cpu() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}

// readingTakes returns the median difference of two consecutive readings.
func readingTakes() time.Duration {
	all := make([]time.Duration, 10_001)
	for i := range all {
		began := cpu()
		all[i] = cpu() - began
	}
	slices.Sort(all)
	return all[len(all)/2]
}
