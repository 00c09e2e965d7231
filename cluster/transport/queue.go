package transport

import "sync"

// queue holds encoded frames for the single goroutine that writes them. Frames that were taken
// but not yet written still count, so the bound also covers a peer that reads slowly.
type queue struct {
	wake chan struct{} // holds a token after frames arrived

	mu     sync.Mutex
	items  [][]byte
	paused bool // new frames do not wake the writer
	frames int  // queued frames and those being written
	bytes  int
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

// push appends frames, wakes the writer once, and returns how many frames fit. An empty queue
// always accepts a frame, so MaxFrame may exceed the queue's bounds.
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

// pause(true) keeps new frames from waking the writer; pause(false) ends that.
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

// drain returns all queued frames, or nil. It reuses spare for later ones.
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

// written records that a frame of that many bytes has been written.
func (q *queue) written(bytes int) {
	q.mu.Lock()
	q.frames--
	q.bytes -= bytes
	q.mu.Unlock()
}
