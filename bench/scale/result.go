package scale

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const sweepEvery = time.Second

// Result is what a cluster did in the time that counts.
type Result struct {
	Requests, Admitted      int64
	Entries                 int64 // of reports, those of the leaders' own members too
	Booked                  int64 // of them, at leaders
	Frames, Grants, Pushed  int64 // of reports, and of grants; of those, that answer none
	ReportBytes, GrantBytes int64 // packed, without frames, TLS and TCP
	Lines                   int64 // of checkpoints
	// Member and Leader are processor time; Tend is what leaders do once a second, and
	// Decide what the requests took, which is no cost of being a member.
	Member, Leader, Tend, Decide time.Duration

	Open, Accounts int // at the end: keys of all members, and of all ledgers
}

func (c *cluster) finish() {
	for _, m := range c.members {
		c.res.Open += m.agg.Len()
		for _, l := range m.ledgers {
			c.res.Accounts += l.Len()
		}
	}
}

// spent adds what has been used of the processor since.
func (c *cluster) spent(on *time.Duration, since time.Duration) {
	*on += max(0, cpu()-since-c.over)
}

// cpu is what this thread has used of the processor.
func cpu() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}

// readingTakes is the median of what two readings are apart.
func readingTakes() time.Duration {
	all := make([]time.Duration, 10_001)
	for i := range all {
		began := cpu()
		all[i] = cpu() - began
	}
	slices.Sort(all)
	return all[len(all)/2]
}
