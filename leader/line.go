package leader

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// keyLevel returns the bucket's line in a checkpoint.
func (b *bucket) keyLevel(now quota.Time) quota.KeyLevel {
	kl := quota.KeyLevel{Key: b.key(), Level: b.level(), At: now, Full: b.limit.BurstUnits(), FullAt: max(b.keep, now.Add(min(b.resetAfter(now), maxFull)))}
	if b.limit.Ceiling == quota.Hard { // the node that compares it may have another clock
		kl.FullAt = kl.FullAt.Add(MaxOffset)
	}
	switch hard := b.limit.Ceiling == quota.Hard; {
	case b.tier.Kind.Windowed():
		kl.WindowStart, _ = b.pool.Bounds()
		kl.Slope = b.gainPerSecond()
		if hard || b.endures() {
			kl.Period = b.tier.Rate.Per
		}
	case hard && b.tier.Kind == quota.TokenBucket:
		kl.Slope = b.gains
	}
	if b.endures() {
		kl.Implicit = b.implicit
		b.keepMarks(now, &kl)
	}
	return kl
}

// keepMarks adds the booked counts of the members. The line stays for as long as one of them has
// the key open.
func (b *bucket) keepMarks(now quota.Time, kl *quota.KeyLevel) {
	m := b.recountable()
	kl.Level = min(m.Level(), b.limit.BurstUnits())
	for i := range b.allocations {
		al := &b.allocations[i]
		kl.Marks = append(kl.Marks, al.mark())
		if !al.closed {
			kl.FullAt = max(kl.FullAt, now.Add(openMemory))
		}
	}
}

// openMemory is how long the log keeps a line of a key that members have open.
const openMemory = time.Hour

// maxFull bounds how long the log keeps a key that hardly refills.
const maxFull = 400 * 24 * time.Hour
