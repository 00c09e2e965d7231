package accounts

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// Replica is the accounts of one range, as its log has made them. Safe for
// concurrent use; Apply and Restore one at a time.
type Replica struct {
	mu    sync.Mutex
	store *account.Store
	// The log's time: it was time at seen, and runs on by what passes here. Only an entry that is later
	// sets it.
	time     quota.Time // 0 before the first entry
	seen     time.Time
	proposed proposed
	tally    *tally // nil until there is a Service
}

// NewReplica returns an empty one.
func NewReplica() *Replica { return &Replica{store: account.New(account.Bounds{})} }

// Apply carries out an encoded AccountBatch. The result is a []account.Outcome, or
// an error when this version cannot read the batch; nothing is changed then.
func (r *Replica) Apply(batch []byte) any {
	at, commands, err := account.DecodeBatch(batch)
	if err != nil {
		return fmt.Errorf("batch of account commands: %w", err)
	}
	out, t := r.carryOut(at, commands, batch)
	for i := range commands {
		if c := commands[i].Apply; t != nil && c != nil && out[i].Code == account.Done {
			t.count(c.Ops, out[i].Under)
		}
	}
	return out
}

// carryOut also returns the tally that counts what was applied, if this process has proposed it.
func (r *Replica) carryOut(at quota.Time, commands []account.Command, batch []byte) (out []account.Outcome, counts *tally) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); r.time == 0 || at > r.logTime(now) {
		r.time, r.seen = at, now
	}
	out = make([]account.Outcome, len(commands))
	for i := range commands {
		out[i] = r.store.Apply(at, &commands[i])
	}
	if r.proposed.remove(batch) {
		counts = r.tally
	}
	return out, counts
}

// now is the time for the next entry: the log's time, which passes also while right clocks are behind
// it. A clock that is ahead of it counts only if it agrees with those of most nodes, or if the log has no
// time yet: one wrong clock would move the log ahead for good.
func (r *Replica) now(clock quota.Time, agreed bool) quota.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.time == 0 {
		return clock
	}
	log := r.logTime(time.Now())
	if agreed {
		return max(clock, log)
	}
	return log
}

func (r *Replica) logTime(now time.Time) quota.Time { return r.time.Add(now.Sub(r.seen)) }

// propose notes that this process gives a batch to the log, until it is applied here or forgo
// says that it never is.
func (r *Replica) propose(batch []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.proposed.add(batch)
}

func (r *Replica) forgo(batch []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.proposed.remove(batch)
}

func (r *Replica) countInto(t *tally) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tally = t
}

// View returns the state as it is now.
func (r *Replica) View() account.View {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.store.View()
}

// Due says whether the time of something in the store is over.
func (r *Replica) Due(now quota.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.store.Due(now)
}

// Stats returns the size of the store.
func (r *Replica) Stats() account.Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.store.Stats()
}

// Restore replaces the state by what a View has written. An error leaves it as it was.
func (r *Replica) Restore(in io.Reader) error {
	fresh := account.New(account.Bounds{})
	if err := fresh.Restore(in); err != nil {
		return fmt.Errorf("accounts: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.store, r.time, r.seen = fresh, fresh.Now(), time.Now()
	return nil
}

// Clear empties the state.
func (r *Replica) Clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.store, r.time = account.New(account.Bounds{}), 0
}

// outcomes returns what Apply has answered.
func outcomes(result any, commands int) ([]account.Outcome, error) {
	switch r := result.(type) {
	case []account.Outcome:
		if len(r) == commands {
			return r, nil
		}
	case error:
		return nil, r
	}
	return nil, errors.New("the range's state machine does not know accounts")
}
