package leader

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// keyLevel is the account's line in a checkpoint.
func (a *account) keyLevel(now quota.Time) quota.KeyLevel {
	kl := quota.KeyLevel{Key: a.key, Level: a.level(), At: now, Full: a.limit.BurstUnits(), FullAt: max(a.keep, now.Add(min(a.resetAfter(now), maxFull)))}
	if a.limit.Ceiling == quota.Hard { // the node that compares may have another clock
		kl.FullAt = kl.FullAt.Add(MaxOffset)
	}
	if a.tier.Kind.Windowed() {
		kl.WindowStart, _ = a.pool.Bounds()
		kl.Slope = a.perSecond()
	}
	if a.endures() {
		kl.Unlogged = a.unlogged
		a.keepMarks(now, &kl)
	}
	return kl
}

// keepMarks adds what is booked of the members. As long as one of them has the
// key open, the line stays.
func (a *account) keepMarks(now quota.Time, kl *quota.KeyLevel) {
	m := a.recountable()
	kl.Level = min(m.Level(), a.limit.BurstUnits())
	for i := range a.holders {
		h := &a.holders[i]
		kl.Marks = append(kl.Marks, h.mark())
		if !h.closed {
			kl.FullAt = max(kl.FullAt, now.Add(openMemory))
		}
	}
}

// openMemory is how long a line of the log is kept that members have open.
const openMemory = time.Hour

// maxFull bounds how long a checkpoint remembers a key that hardly refills.
const maxFull = 400 * 24 * time.Hour
