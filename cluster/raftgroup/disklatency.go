package raftgroup

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// diskLatency measures how long appends to this node's logs take. A leader with a slow disk still
// answers, so nothing declares it dead, yet every commit of its groups waits for its disk
// although the other replicas are done. Another node should lead those groups.
type diskLatency struct {
	limit time.Duration       // upper bound of the mean; the check is off if not positive
	seen  func(time.Duration) // see Config.Appended

	mu   sync.Mutex
	mean time.Duration // weighted mean of recent appends; the newest has weight 1/4
	at   time.Time     // time of the newest append
	slow time.Time     // when the disk became slow; zero if it is not
	fast time.Time     // when the mean fell below half the limit; zero otherwise
	most time.Duration // highest mean while slow
}

// note records a finished append.
func (p *diskLatency) note(now time.Time, took time.Duration) {
	if p.seen != nil {
		p.seen(took)
	}
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
	case now.Sub(p.fast) >= recoveredAfter: // hysteresis: otherwise leadership would flap
		p.slow, p.fast = time.Time{}, time.Time{}
	}
}

// idle reports that the disk is slow and has had no recent append. Only a probe can tell whether
// it is still slow.
func (p *diskLatency) idle(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.slow.IsZero() && now.Sub(p.at) >= saveRetry
}

// fault returns the current fault, or nil.
func (p *diskLatency) fault() *fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.slow.IsZero() {
		return nil
	}
	return &fault{errors.New(p.text()), p.slow}
}

// text describes how slow the disk is, or was: leadership stays away for a while afterwards. The
// caller holds mu.
func (p *diskLatency) text() string {
	mean := p.mean.Round(time.Millisecond)
	if p.mean >= p.limit {
		return fmt.Sprintf("slow disk: appends to the log take %v, slow is from %v on; others lead if theirs are faster", mean, p.limit)
	}
	return fmt.Sprintf("slow disk: appends to the log took up to %v (slow: %v or more); they take %v now. The fault ends after a minute below %v",
		p.most.Round(time.Millisecond), p.limit, mean, p.limit/2)
}
