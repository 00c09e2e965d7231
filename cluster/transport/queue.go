package transport

import "sync"

// queue holds encoded frames for the one goroutine that writes them. What has
// been taken but not yet written still counts, so the bound covers a peer that
// reads slowly.
type queue struct {
	wake chan struct{} // a token when items came or the queue was closed

	mu     sync.Mutex
	items  [][]byte
	paused bool // the writer is not woken yet
	frames int  // items and those being written
	bytes  int
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

// push appends frames, wakes the writer once, and returns how many there was room
// for. A frame is always taken by an empty queue, so that MaxFrame needs no relation
// to the bounds.
func (q *queue) push(batch ...[]byte) (taken int) {
	q.mu.Lock()
	for _, b := range batch {
		if q.frames >= maxQueueFrames || (q.frames > 0 && q.bytes+len(b) > maxQueueBytes) {
			break
		}
		q.items = append(q.items, b)
		q.frames++
		q.bytes += len(b)
		taken++
	}
	held := q.paused
	q.mu.Unlock()
	if taken > 0 && !held {
		q.wakeWriter()
	}
	return taken
}

func (q *queue) wakeWriter() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// pause keeps frames from waking the writer until it is taken back.
func (q *queue) pause(on bool) {
	q.mu.Lock()
	was := q.paused
	q.paused = on
	waits := len(q.items) > 0
	q.mu.Unlock()
	if was && !on && waits {
		q.wakeWriter()
	}
}

// drain returns all that waits, reusing spare for what comes next.
func (q *queue) drain(spare [][]byte) [][]byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 {
		return nil
	}
	batch := q.items
	q.items = spare[:0]
	return batch
}

// written says that a frame of so many bytes has left.
func (q *queue) written(bytes int) {
	q.mu.Lock()
	q.frames--
	q.bytes -= bytes
	q.mu.Unlock()
}
