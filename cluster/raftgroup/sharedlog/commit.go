package sharedlog

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/hashicorp/raft"
)

const (
	// maxBatch is how many bytes of entries a transaction takes, unless one call alone has more.
	maxBatch = 4 << 20
	// pieceLen is how many entries a transaction deletes at most.
	pieceLen = 512
)

// errMiddle is the error of a deletion that would leave a gap. It does not fail the log.
var errMiddle = errors.New("deletion in the middle of a log")

// deletion is one call of DeleteRange or Erase that waits for its transactions.
type deletion struct {
	group    *Group
	from, to uint64
	values   bool // deletes the values beside the log instead
	done     chan error
}

// submit gives the committer a write and waits until it is synced.
func (l *Log) submit(w *write) error {
	if len(w.entries) == 0 {
		return nil
	}
	l.mu.Lock()
	if err := l.refuses(); err != nil {
		l.mu.Unlock()
		return err
	}
	g := w.group
	if g.writes = append(g.writes, w); len(g.writes) == 1 {
		l.ready = append(l.ready, g)
	}
	l.wake.Signal()
	l.mu.Unlock()
	return <-w.done
}

// submitDeletion gives the committer a deletion and waits for its last piece.
func (l *Log) submitDeletion(d *deletion) error {
	l.mu.Lock()
	if err := l.refuses(); err != nil {
		l.mu.Unlock()
		return err
	}
	l.deletions = append(l.deletions, d)
	l.wake.Signal()
	l.mu.Unlock()
	return <-d.done
}

// refuses returns why the log takes no writes, or nil. The caller holds mu.
func (l *Log) refuses() error {
	switch {
	case l.failed != nil:
		return fmt.Errorf("%w: %w", ErrFailed, l.failed)
	case l.closing:
		return ErrClosed
	}
	return nil
}

// run is the committer. It alternates between a batch of writes and a piece of a deletion.
func (l *Log) run() {
	defer close(l.ended)
	for {
		l.mu.Lock()
		for len(l.ready)+len(l.deletions) == 0 && !l.closing {
			l.wake.Wait()
		}
		if len(l.ready)+len(l.deletions) == 0 {
			l.mu.Unlock()
			return
		}
		batch := l.batch()
		var d *deletion
		if len(l.deletions) > 0 {
			d, l.deletions = l.deletions[0], l.deletions[1:]
		}
		l.mu.Unlock()
		if len(batch) > 0 {
			l.commit(batch)
			l.yield(len(batch))
		}
		if d != nil {
			l.piece(d)
		}
	}
}

// yield lets the callers that were just answered ask again before the next batch is taken. Under
// load they have more at once; without it, half of them would miss each batch. It takes microseconds
// if they have nothing.
func (l *Log) yield(answered int) {
	for range 8 * answered {
		l.mu.Lock()
		waiting := len(l.ready)
		l.mu.Unlock()
		if waiting >= answered {
			return
		}
		runtime.Gosched()
	}
}

// batch takes the next calls, one of each group in turns. The caller holds mu.
func (l *Log) batch() (batch []*write) {
	size := 0
	for len(l.ready) > 0 {
		g := l.ready[0]
		w := g.writes[0]
		if len(batch) > 0 && size+w.bytes > maxBatch {
			break
		}
		batch, size = append(batch, w), size+w.bytes
		l.ready, g.writes = l.ready[1:], g.writes[1:]
		if len(g.writes) > 0 {
			l.ready = append(l.ready, g)
		}
	}
	return batch
}

// commit writes a batch in one transaction and answers its callers.
func (l *Log) commit(batch []*write) {
	var entries []*raft.Log
	bytes := 0
	for _, w := range batch {
		if err := l.closeGap(w); err != nil {
			l.fail(err, batch)
			return
		}
		entries, bytes = append(entries, w.entries...), bytes+w.bytes
	}
	err := l.transact(func(s Store) error { return s.StoreLogs(entries) })
	if err != nil {
		l.fail(err, batch)
		return
	}
	l.mu.Lock()
	l.stats.Commits++
	l.stats.Calls += uint64(len(batch))
	l.stats.Entries += uint64(len(entries))
	l.stats.Bytes += uint64(bytes)
	for _, w := range batch {
		w.apply()
	}
	l.mu.Unlock()
	for _, w := range batch {
		w.done <- nil
	}
}

// closeGap deletes a log that a write does not follow on.
func (l *Log) closeGap(w *write) error {
	for {
		l.mu.Lock()
		from, to := w.group.first, w.group.last
		gap := w.gap()
		l.mu.Unlock()
		if !gap {
			return nil
		}
		if _, err := l.deletePiece(&deletion{group: w.group, from: from, to: to}); err != nil {
			return err
		}
	}
}

// transact runs one transaction, and counts it if it is synced.
func (l *Log) transact(f func(Store) error) error {
	l.files.RLock()
	err := f(l.store)
	l.files.RUnlock()
	if err == nil {
		l.mu.Lock()
		l.txid++
		l.mu.Unlock()
	}
	return err
}

// piece does the next piece of a deletion. It answers the caller after the last one; until then the
// deletion goes to the end of the line.
func (l *Log) piece(d *deletion) {
	l.mu.Lock()
	err := l.failed // the batch before this piece may have failed
	l.mu.Unlock()
	done := err != nil
	if !done {
		if done, err = l.deletePiece(d); err != nil && !errors.Is(err, errMiddle) {
			l.fail(err, nil)
		}
	}
	if err != nil || done {
		d.done <- err
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.failed; err != nil {
		d.done <- err
		return
	}
	l.deletions = append(l.deletions, d)
}

// deletePiece deletes at most pieceLen entries and reports whether none is left to delete. It never
// leaves a gap in a log: it takes a beginning from the front, an end or all of it from the back.
func (l *Log) deletePiece(d *deletion) (done bool, err error) {
	g := d.group
	if d.values {
		return true, l.deleteValues(g)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	first, last := g.first, g.last
	from, to := max(d.from, first), min(d.to, last)
	front := to < last
	switch {
	case last == 0 || from > to:
		return true, nil
	case front && from > first:
		return true, fmt.Errorf("%w: entries %d to %d of group %d, whose log has %d to %d", errMiddle, d.from, d.to, g.id, first, last)
	case front:
		to = min(to, from+pieceLen-1)
	default:
		from = max(from, to-min(to, pieceLen)+1)
	}
	switch { // before the entries are gone, so that nobody looks for them
	case front:
		g.first = to + 1
	case from <= first:
		g.first, g.last = 0, 0
	default:
		g.last = from - 1
	}
	low, high := uint64(g.id)<<indexBits|from, uint64(g.id)<<indexBits|to
	l.mu.Unlock()
	err = l.transact(func(s Store) error { return s.DeleteRange(low, high) })
	l.mu.Lock()
	if err != nil {
		g.first, g.last = first, last
		return true, err
	}
	l.stats.Pieces++
	return g.last == 0 || g.first > d.to || g.last < d.from, nil
}

// deleteValues deletes what the group keeps beside its log.
func (l *Log) deleteValues(g *Group) error {
	if err := l.transact(func(s Store) error { return s.DeleteRange(stableKey(g.id, 0), stableKey(g.id, slots-1)) }); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.Pieces++
	g.stable = [slots][]byte{}
	return nil
}

// fail refuses all writes from now on, and answers the batch and all calls that wait.
func (l *Log) fail(err error, batch []*write) {
	l.mu.Lock()
	l.failed = err
	for _, g := range l.ready {
		batch = append(batch, g.writes...)
		g.writes = nil
	}
	deletions := l.deletions
	l.ready, l.deletions = nil, nil
	l.mu.Unlock()
	for _, w := range batch {
		w.done <- err
	}
	for _, d := range deletions {
		d.done <- err
	}
}
