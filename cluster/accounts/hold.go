package accounts

import (
	"fmt"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// gate lets a backup block, at the leader of a range, the two steps of transactions that must not
// fall between the snapshots of two ranges: the decision to commit, and Forget. A blocked command
// is retried as after an overload.
type gate struct {
	passing sync.RWMutex // held for reading while an entry with such a step is in flight

	mu    sync.Mutex
	by    string // names the backup
	until time.Time
}

// held reports whether a backup now holds the range: the named one, or any if by is empty.
func (g *gate) held(by string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.by != "" && (by == "" || by == g.by) && time.Now().Before(g.until)
}

// stopped reports whether a held gate blocks the command.
func stopped(c *account.Command) bool {
	return c.Decide != nil && c.Decide.Commit || c.Forget != nil
}

// enter returns the commands that may go into the log now. It fails the others with errOverloaded,
// with nothing applied. The caller must call leave once the log has applied the commands.
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

// Hold keeps the log of a range that this node leads from taking decisions to commit and Forgets,
// for the duration long. When Hold returns, every such command that passed the gate before has been
// given to the log. by names the backup. Hold returns an error if another backup holds the range.
// All other commands proceed.
func (s *Service) Hold(r quota.RangeID, by string, long time.Duration) error {
	g := &s.queues[r].gate
	g.passing.Lock() // waits for the entries in flight: at most tryLimit
	defer g.passing.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := time.Now(); g.by == "" || g.by == by || !now.Before(g.until) {
		g.by, g.until = by, now.Add(long)
		return nil
	}
	return fmt.Errorf("range %d: another backup holds it", r)
}

// Holding reports whether the backup has held the range without a break since its Hold.
func (s *Service) Holding(r quota.RangeID, by string) bool { return s.queues[r].gate.held(by) }

// Release ends the backup's Hold; it does nothing if another backup holds the range.
func (s *Service) Release(r quota.RangeID, by string) {
	g := &s.queues[r].gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.by == by {
		g.by = ""
	}
}
