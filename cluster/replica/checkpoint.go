package replica

import (
	"context"
	"sync"
	"time"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/snapshotio"
	"github.com/quorate/quorate/leader"
)

// checkpointEvery, with the time that reports and the log take, is how much of
// what was counted a full restart may forget: about a second.
const checkpointEvery = 750 * time.Millisecond

// turns is in how many parts the ranges are swept and checkpointed, one after another:
// all at once would keep callers waiting.
const turns = 8

// atOnce is how many checkpoints each of the two checkpointers writes at a time.
const atOnce = 8

// checkpointer sweeps and checkpoints each range once in checkpointEvery.
func (s *Set) checkpointer() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-s.stop
		cancel()
	}()
	tick := time.NewTicker(checkpointEvery / turns)
	defer tick.Stop()
	next := schedule{}
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
		}
		now := time.Now()
		s.checkpointAll(ctx, func(r *Replica) bool { return next.due(now, r.ID) })
	}
}

// schedule says when each range is checkpointed next.
type schedule map[quota.RangeID]time.Time

// due reports whether a range is, and then puts it off by checkpointEvery. Ranges
// whose turn has passed, because the disk took its time, are due together.
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

// Checkpoint writes what moved in the range to its log, if this node leads it, as far as ctx allows.
func (r *Replica) Checkpoint(ctx context.Context) { r.checkpoint(ctx, true) }

// CheckpointAll writes what moved in all ranges that this node leads to their logs, as far as ctx allows.
func (s *Set) CheckpointAll(ctx context.Context) {
	s.checkpointAll(ctx, func(*Replica) bool { return true })
}

// checkpointAll sweeps and checkpoints those of the ranges led here. Checkpoints of different
// ranges go to different logs: they wait for the disk together.
func (s *Set) checkpointAll(ctx context.Context, which func(*Replica) bool) {
	slots := make(chan struct{}, atOnce)
	for _, r := range s.replicas {
		if !which(r) || !r.With(func(l *leader.Ledger, now quota.Time) { s.suspect(l, now); l.Sweep(now) }) {
			continue
		}
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			r.checkpoint(ctx, true)
		}()
	}
	for range cap(slots) { // wait for the last ones
		slots <- struct{}{}
	}
}

// requestCheckpoint has the next checkpoint written at once, once however often it is asked.
func (r *Replica) requestCheckpoint() {
	if r.urgent.CompareAndSwap(false, true) {
		r.set.urgent <- r // has room for every replica
	}
}

// urgentCheckpointer writes checkpoints of what members wait for, as soon as they are requested.
// What else is wanted meanwhile is in the next one.
func (s *Set) urgentCheckpointer() {
	ctx, cancel := context.WithCancel(context.Background())
	var busy sync.WaitGroup
	defer busy.Wait()
	defer cancel()
	slots := make(chan struct{}, atOnce)
	for {
		select {
		case <-s.stop:
			return
		case r := <-s.urgent:
			slots <- struct{}{}
			r.urgent.Store(false)
			busy.Go(func() {
				r.checkpoint(ctx, false)
				<-slots
			})
		}
	}
}

// maxCheckpoint bounds the levels in one log entry; leader.MaxCheckpoint bounds their bytes.
const maxCheckpoint = 4096

// checkpoint writes the levels that moved to the range's log, in as many
// entries as it takes; or only what members wait for, which goes first even where
// everything is being written. What the log does not take is tried again at the next
// call: a key that nobody uses moves no more.
func (r *Replica) checkpoint(ctx context.Context, all bool) {
	for r.checkpointPart(ctx, all) {
	}
}

// checkpointPart writes one entry, and reports whether there is more to write.
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
		return false
	}
	r.set.stats.checkpoints.Inc()
	r.saved(term)
	return more
}

// moved returns the next checkpoint to write, nil when there is none, and whether another is to
// follow. What members wait for is in one of its own: the log takes that sooner than many levels.
func (r *Replica) moved(all bool) (term quota.Term, cp *raftlogv1.Checkpoint, more bool) {
	r.With(func(l *leader.Ledger, now quota.Time) {
		term, cp, more = l.Term(), r.unsaved, all
		if cp != nil {
			return
		}
		levels := l.CheckpointWanted(now, maxCheckpoint)
		if len(levels) == 0 && all {
			levels, all = l.Checkpoint(now, maxCheckpoint), false
		}
		if more = all || l.More(); len(levels) == 0 {
			return
		}
		r.number = l.Written()
		cp = &raftlogv1.Checkpoint{AtUnixNanos: int64(now)}
		for _, kl := range levels {
			cp.Levels = append(cp.Levels, EncodeLevel(kl))
		}
		r.unsaved = cp
	})
	return term, cp, more
}

// saved tells the ledger that its checkpoint is in the log, and delivers what
// members had to wait for.
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
	if wants { // somebody came while it was being written
		r.requestCheckpoint()
	}
}
