package leader

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// MaxOffset is the most that the clocks of two nodes may differ for a hard limit to be exact across
// a change of leaders. A replica times the lines itself that it saw committed. Lines that it read
// again after a start are dated by the clock of the leader of that time, and count as younger by
// MaxOffset.
const MaxOffset = 500 * time.Millisecond

// age is a lower bound of the age of a line. A line was written before it was applied here, and its
// wall clock time is wrong by at most MaxOffset.
func age(now quota.Time, kl *quota.KeyLevel) time.Duration {
	least := now.Sub(kl.At) - MaxOffset
	if kl.Applied != 0 {
		least = max(least, now.Sub(kl.Applied))
	}
	return max(0, least)
}

// onClock moves the times of a line to this leader's clock, never too early, so no refill is
// counted that may not have happened, and no promise ends that may continue. Promised rates are
// charged for as much less time as the pool refills, and add up to at most its rate. Windows keep
// their times: they follow the leader's wall clock.
func onClock(now quota.Time, limit *quota.Limit, kl *quota.KeyLevel) {
	later := now.Add(-age(now, kl)) - kl.At
	if kl.AnswersUntil != 0 {
		kl.AnswersUntil += later
	}
	if limit.First().Kind != quota.TokenBucket {
		return
	}
	kl.At, kl.FullAt = kl.At+later, kl.FullAt+later
	marks := make([]quota.Mark, len(kl.Marks))
	for i, m := range kl.Marks {
		m.Until += later
		marks[i] = m
	}
	kl.Marks = marks
}
