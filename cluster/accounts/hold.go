package accounts

import (
	"fmt"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// gate is where a backup stops, at the leader of a range, the two steps of
// transactions that must not come between the snapshots of two ranges: to decide to
// commit, and to forget. Whoever is stopped tries again, as after an overload.
type gate struct {
	passing sync.RWMutex // held for reading while an entry with such a step is under way

	mu    sync.Mutex
	by    string // the backup
	until time.Time
}

// held says whether a backup holds the range now: that one, or any if by is empty.
func (g *gate) held(by string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.by != "" && (by == "" || by == g.by) && time.Now().Before(g.until)
}

// stopped says whether a command is such a step.
func stopped(c *account.Command) bool {
	return c.Decide != nil && c.Decide.Commit || c.Forget != nil
}

// enter returns the commands that may go into the log now; the others have failed,
// and nothing was done. leave is called when they are applied.
func (g *gate) enter(batch []*pending) (pass []*pending, leave func()) {
	steps := 0
	for _, p := range batch {
		if stopped(&p.cmd) {
			steps++
		}
	}
	if steps == 0 {
		return batch, func() {}
	}
	g.passing.RLock()
	if !g.held("") {
		return batch, g.passing.RUnlock
	}
	g.passing.RUnlock()
	for _, p := range batch {
		if stopped(&p.cmd) {
			p.err = fmt.Errorf("%w: a backup holds the range for a moment", errOverloaded)
			continue
		}
		pass = append(pass, p)
	}
	return pass, func() {}
}

// Hold keeps the log of a range that is led here from taking a decision to commit, or
// to forget a transaction, for that long. When it returns, none is on its way that
// has not been given to the log. by names the backup; an error says that another one
// holds the range. Everything else goes on.
func (s *Service) Hold(r quota.RangeID, by string, long time.Duration) error {
	g := &s.queues[r].gate
	g.passing.Lock() // waits for what is under way: a try at most
	defer g.passing.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := time.Now(); g.by == "" || g.by == by || !now.Before(g.until) {
		g.by, g.until = by, now.Add(long)
		return nil
	}
	return fmt.Errorf("range %d: another backup holds it", r)
}

// Holding says whether that backup has held the range since its Hold.
func (s *Service) Holding(r quota.RangeID, by string) bool { return s.queues[r].gate.held(by) }

// Release ends what Hold began, if it was by that backup.
func (s *Service) Release(r quota.RangeID, by string) {
	g := &s.queues[r].gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.by == by {
		g.by = ""
	}
}
