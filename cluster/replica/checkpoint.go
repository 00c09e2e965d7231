package replica

import (
	"context"
	"sync"
	"time"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/backoff"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/snapshotio"
	"github.com/quorate/quorate/leader"
)

// checkpointEvery is the interval between checkpoints of one range. Added to the time that reports and
// the log take, it bounds the counts that a full restart may lose: about a second's worth.
const checkpointEvery = 750 * time.Millisecond

// turns is the number of groups that the ranges are divided into. The sweeper visits one group after
// another, because doing all at once would block callers.
const turns = 8

// atOnce is how many requested checkpoints are written concurrently.
const atOnce = 8

// maxTogether is how many bytes of levels are collected, of several ranges, before they are written.
const maxTogether = 4 * leader.MaxCheckpoint

// sweeper sweeps each range once per checkpointEvery.
func (s *Set) sweeper() {
	tick := time.NewTicker(checkpointEvery / turns)
	defer tick.Stop()
	next := schedule{}
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		for _, r := range s.replicas {
			if next.due(now, r.ID) && r.With(s.suspect) {
				r.sweep()
			}
		}
	}
}

// checkpointer checkpoints all ranges together, once per checkpointEvery.
func (s *Set) checkpointer() {
	for backoff.Sleep(s.ctx, untilTick(time.Now())) == nil {
		s.checkpointAll(s.ctx)
	}
}

// untilTick returns the time until the next moment at which all nodes checkpoint. If each range had a
// moment of its own, a node would sync its log for nearly every entry, of those that it proposes and of
// those that it follows; entries that come together share the syncs.
func untilTick(now time.Time) time.Duration {
	return now.Truncate(checkpointEvery).Add(checkpointEvery).Sub(now)
}

// schedule holds the time of each range's next sweep.
type schedule map[quota.RangeID]time.Time

// due reports whether a range's sweep is due, and if so postpones the next by checkpointEvery.
// Ranges that missed their turn because the CPU was busy are due together.
func (d schedule) due(now time.Time, r quota.RangeID) bool {
	at, known := d[r]
	if !known {
		at = now.Add(checkpointEvery / turns * time.Duration(r%turns))
		d[r] = at
	}
	if now.Before(at) {
		return false
	}
	if d[r] = at.Add(checkpointEvery); d[r].Before(now) {
		d[r] = now.Add(checkpointEvery)
	}
	return true
}

// Checkpoint writes the range's changed levels to its log, however little they have changed, if this
// node leads the range, until ctx ends.
func (r *Replica) Checkpoint(ctx context.Context) {
	r.flush()
	r.checkpoint(ctx, true)
}

// flush unlocks the ledger again and again, as sweep does.
func (r *Replica) flush() {
	for more := true; more; {
		more = false
		r.With(func(l *leader.Ledger, now quota.Time) { more = l.Flush(now, sweepAtOnce) })
	}
}

// CheckpointAll sweeps all ranges that this node leads, and then does what Checkpoint does.
func (s *Set) CheckpointAll(ctx context.Context) {
	for _, r := range s.replicas {
		if r.With(s.suspect) {
			r.flush()
			r.sweep()
		}
	}
	s.checkpointAll(ctx)
}

// checkpointAll checkpoints the ranges led here. It collects the levels of one range after another,
// because callers need the CPU, and then has all ranges write at the same time.
func (s *Set) checkpointAll(ctx context.Context) {
	var busy sync.WaitGroup
	defer busy.Wait()
	var ready []*Replica
	write := func() {
		for _, r := range ready {
			busy.Go(func() { r.checkpoint(ctx, true) })
		}
		ready = nil
	}
	size := 0
	for _, r := range s.replicas {
		n, any := r.collect()
		if !any {
			continue
		}
		ready = append(ready, r)
		if size += n; size >= maxTogether {
			write()
			size = 0
		}
	}
	write()
}

// collect makes the next checkpoint, for checkpoint to write, and returns its size in bytes. any reports
// whether there is something to write. A range that is writing already collects by itself after that.
func (r *Replica) collect() (size int, any bool) {
	if r.term.Load() == 0 {
		return 0, false
	}
	if !r.saving.TryLock() {
		return 0, true
	}
	defer r.saving.Unlock()
	_, cp, more := r.moved(true)
	if cp == nil {
		return 0, false
	}
	r.more = more
	return len(cp.Packed), true
}

// sweepAtOnce bounds the accounts that a sweep visits while the ledger is locked: a visit takes a few
// microseconds.
const sweepAtOnce = 128

// sweep does what is due in the ledger. It unlocks the ledger again and again, so that reports and
// decisions continue, and ends when nothing is due.
func (r *Replica) sweep() {
	for more := true; more; {
		more = false
		var pushed []quota.Grant
		r.With(func(l *leader.Ledger, now quota.Time) { more, pushed = l.SweepSome(now, sweepAtOnce), l.Pushed() })
		r.push(pushed)
	}
}

// requestCheckpoint schedules an immediate checkpoint. Requests made before it starts are merged.
func (r *Replica) requestCheckpoint() {
	if r.urgent.CompareAndSwap(false, true) {
		r.set.urgent <- r // never blocks: it has room for every replica
	}
}

// urgentCheckpointer writes requested checkpoints of what members wait for, as soon as it can. Requests
// that arrive during a checkpoint go into the next one.
func (s *Set) urgentCheckpointer() {
	var busy sync.WaitGroup
	defer busy.Wait()
	slots := make(chan struct{}, atOnce)
	for {
		select {
		case <-s.ctx.Done():
			return
		case r := <-s.urgent:
			slots <- struct{}{}
			r.urgent.Store(false)
			busy.Go(func() {
				r.checkpoint(s.ctx, false)
				<-slots
			})
		}
	}
}

const (
	// maxCheckpoint bounds the number of levels in one log entry, and leader.MaxCheckpoint their bytes; the
	// last maxAtOnce levels may go beyond either.
	maxCheckpoint = 4096
	// maxAtOnce bounds the levels that are collected while the ledger is locked.
	maxAtOnce = 128
)

// checkpoint writes changed levels to the range's log, in as many entries as they need: all of them, or
// only those that members wait for. The latter go first even while all levels are being written.
// Levels that the log does not accept are tried again at the next call, because the level of a key
// that is no longer used does not change again.
func (r *Replica) checkpoint(ctx context.Context, all bool) {
	for r.checkpointPart(ctx, all) {
	}
}

// checkpointPart writes one entry, and reports whether more remain.
func (r *Replica) checkpointPart(ctx context.Context, all bool) (more bool) {
	r.saving.Lock()
	defer r.saving.Unlock()
	term, cp, more := r.moved(all)
	if cp == nil {
		return false
	}
	entry := snapshotio.Encode(&raftlogv1.RangeCommand{Change: &raftlogv1.RangeCommand_Checkpoint{Checkpoint: cp}})
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := r.set.node.Propose(ctx, r.ID, entry); err != nil {
		r.set.stats.failedCheckpoints.Inc()
		r.set.log.Debug("checkpoint failed", "range", r.ID, "err", err)
		r.more = true // other levels have moved by the next attempt
		return false
	}
	r.set.stats.checkpoints.Inc()
	r.saved(term)
	return more
}

// moved returns the next checkpoint to write, or nil, and whether another must follow. Levels that
// members wait for get a checkpoint of their own: the log takes a small entry sooner than a large one.
// It unlocks the ledger again and again while it collects many levels.
func (r *Replica) moved(all bool) (term quota.Term, cp *raftlogv1.Checkpoint, more bool) {
	var levels []quota.KeyLevel
	var at quota.Time
	for size := 0; ; {
		full := true
		r.With(func(l *leader.Ledger, now quota.Time) {
			if len(levels) > 0 && l.Term() != term { // these levels are those of an old ledger
				levels, more = nil, false
				return
			}
			term = l.Term()
			if cp, more = r.unsaved, all && r.more; cp != nil {
				return
			}
			part := l.CheckpointWanted(now, maxAtOnce)
			wanted := len(part) > 0
			if !wanted && all {
				part = l.Checkpoint(now, maxAtOnce)
			}
			if len(levels) == 0 {
				at = now
			}
			if len(part) > 0 {
				r.number = l.Written()
			}
			for i := range part {
				size += part[i].MaxSize()
			}
			levels = append(levels, part...)
			more = l.More() || wanted && all
			full = !l.More() || wanted || len(levels) >= maxCheckpoint || size >= leader.MaxCheckpoint
		})
		if full {
			break
		}
	}
	if len(levels) == 0 {
		return term, cp, more && cp != nil
	}
	cp = EncodeCheckpoint(at, levels)
	same := false // a new ledger knows nothing of these
	r.With(func(l *leader.Ledger, _ quota.Time) {
		if same = l.Term() == term; same {
			r.unsaved = cp
		}
	})
	if !same {
		return term, nil, false
	}
	return term, cp, more
}

// saved notifies the ledger that the log has its checkpoint, and delivers the grants that waited for it.
func (r *Replica) saved(term quota.Term) {
	var grants []quota.Grant
	wants := false
	r.With(func(l *leader.Ledger, now quota.Time) {
		if l.Term() != term {
			return
		}
		r.unsaved = nil
		grants = l.Saved(now, r.number)
		if r.committed != nil {
			close(r.committed)
			r.committed = nil
		}
		wants = l.Wants()
	})
	r.set.deliver(grants)
	if wants { // members asked for more during the write
		r.requestCheckpoint()
	}
}
