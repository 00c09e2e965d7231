package leader

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// MaxOffset is the most that the clocks of two nodes may differ for a hard limit
// to be exact over a change of leaders. What a replica has seen being committed it
// times itself; only what it has read again after a start is dated by the clock of
// the leader of that time, and counts as younger by this much.
const MaxOffset = 500 * time.Millisecond

// age is how long ago, at least, the line's moment was. It was written before it
// was applied here, and what the wall clocks say is wrong by MaxOffset at most.
func age(now quota.Time, kl *quota.KeyLevel) time.Duration {
	least := now.Sub(kl.At) - MaxOffset
	if kl.Applied != 0 {
		least = max(least, now.Sub(kl.Applied))
	}
	return max(0, least)
}

// onClock dates a line of a bucket by this leader's clock, never too early:
// then nothing has refilled that may not have, and no promise has ended that may
// continue. What promises yield is charged for as much less as the pool refills
// less, and together they yield no more than it. Windows stay: they are the
// leader's, by the wall clock.
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
