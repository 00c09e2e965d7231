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

// Replica is the accounts of one range as of the applied log. It is safe for concurrent use, but
// Apply and Restore must not run at the same time.
type Replica struct {
	mu    sync.Mutex
	store *account.Store
	// The log's time: it was time at the moment seen, and advances with this process's clock. Only
	// a later entry sets it.
	time     quota.Time // 0 before the first entry
	seen     time.Time
	proposed proposed
	tally    *tally // nil until a Service sets it
}

// NewReplica returns an empty Replica.
func NewReplica() *Replica { return &Replica{store: account.New(account.Bounds{})} }

// Apply applies an encoded AccountBatch. It returns a []account.Outcome, or an error if this
// version cannot read the batch; then nothing changes.
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

// carryOut also returns the tally that must count the applied operations, if this process proposed
// the batch, or nil.
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

// now returns the time for the next entry: the log's time, which advances even while correct clocks
// are behind it. A clock ahead of the log counts only if it agrees with those of most nodes, or if
// the log has no time yet: otherwise one wrong clock would move the log ahead for good.
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

// propose records a batch that this process gives to the log, until the batch is applied here or
// forgo reports that it never will be.
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

// View returns the current state.
func (r *Replica) View() account.View {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.store.View()
}

// Due reports whether anything in the store has expired.
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

// Restore replaces the state by one that a View has written. On error the state is unchanged.
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

// Clear removes all state.
func (r *Replica) Clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.store, r.time = account.New(account.Bounds{}), 0
}

// outcomes converts the result of Apply.
func outcomes(result any, commands int) ([]account.Outcome, error) {
	switch r := result.(type) {
	case []account.Outcome:
		if len(r) == commands {
			return r, nil
		}
	case error:
		return nil, r
	}
	return nil, errors.New("the range's state machine does not support accounts")
}
