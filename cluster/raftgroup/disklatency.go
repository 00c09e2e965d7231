package raftgroup

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// diskLatency measures how long appends to the logs of this node take. A leader
// whose disk is slow answers, so nothing calls it dead, and every commit of its groups
// waits for it although the others would be done: it is better led elsewhere.
type diskLatency struct {
	limit time.Duration // of the mean; 0 is none

	mu   sync.Mutex
	mean time.Duration // of the last few appends, the newest counting a quarter
	at   time.Time     // of the newest
	slow time.Time     // since when it is; zero is not
	fast time.Time     // since when the mean is well below the limit again
	most time.Duration // that the mean has been while slow
}

// note takes an append that has ended.
func (p *diskLatency) note(now time.Time, took time.Duration) {
	if p.limit <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = now
	p.mean += (took - p.mean) / 4
	switch {
	case p.mean >= p.limit:
		p.fast = time.Time{}
		if p.slow.IsZero() {
			p.slow, p.most = now, 0
		}
		p.most = max(p.most, p.mean)
	case p.slow.IsZero():
	case p.mean >= p.limit/2:
		p.fast = time.Time{}
	case p.fast.IsZero():
		p.fast = now
	case now.Sub(p.fast) >= recoveredAfter: // or leadership would come and go
		p.slow, p.fast = time.Time{}, time.Time{}
	}
}

// idle says that a slow disk has not been written to of late: whether it is still slow
// can be known by trying only.
func (p *diskLatency) idle(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.slow.IsZero() && now.Sub(p.at) >= saveAgain
}

// fault is what is wrong; nil when nothing is.
func (p *diskLatency) fault() *fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.slow.IsZero() {
		return nil
	}
	return &fault{errors.New(p.text()), p.slow}
}

// text says how slow the disk is, or was: leadership stays away for a while after it.
func (p *diskLatency) text() string {
	mean := p.mean.Round(time.Millisecond)
	if p.mean >= p.limit {
		return fmt.Sprintf("slow disk: appends to the log take %v, slow is from %v on; others lead if theirs are faster", mean, p.limit)
	}
	return fmt.Sprintf("slow disk: appends to the log took up to %v, slow is from %v on; they take %v now, and after a minute below %v it is over",
		p.most.Round(time.Millisecond), p.limit, mean, p.limit/2)
}
