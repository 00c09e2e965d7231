package journal

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"
	"unsafe"
)

// ahead is the number of free slots at or below which the file grows.
const ahead = stepSlots

// retryGrow is the pause after a failed attempt to grow.
const retryGrow = time.Second

// fill rewrites part of a file with its content, and with zeros beyond its end, so that its blocks
// are allocated.
func fill(f *os.File, from int64, size int) error {
	b := make([]byte, size)
	if n, err := f.ReadAt(b, from); err != nil && err != io.EOF {
		return fmt.Errorf("read %d bytes at %d: %w", n, from, err)
	}
	_, err := f.WriteAt(b, from)
	return err
}

// addStep allocates and maps the next step, and returns its slots. It updates the header last, so
// that the next attempt repeats an incomplete step.
func (j *Journal) addStep() ([]slot, error) {
	n := len(j.steps)
	from := int64(headerSize + n*stepSize)
	if err := j.allocate(j.file, from, stepSize); err != nil {
		return nil, fmt.Errorf("%s: allocate %d bytes at %d: %w", j.path, stepSize, from, err)
	}
	m, err := mapShared(j.file, from, stepSize)
	if err != nil {
		return nil, fmt.Errorf("%s: map %d bytes at %d: %w", j.path, stepSize, from, err)
	}
	j.maps.add(m)
	atomic.StoreUint64(&j.head.steps, max(j.head.steps, uint64(n+1)))
	slots := unsafe.Slice((*slot)(unsafe.Pointer(&m[0])), stepSlots)
	for i := range slots { // fault the pages in now, not during a check
		atomic.StoreUint64(&slots[i].id, atomic.LoadUint64(&slots[i].id))
	}
	return slots, nil
}

// growWhenAsked grows the file in the background, until toGrow is closed.
func (j *Journal) growWhenAsked() {
	defer close(j.grown)
	for range j.toGrow {
		slots, err := j.addStep()
		j.mu.Lock()
		if err == nil {
			j.adopt(slots)
		} else {
			j.retryAt = time.Now().Add(retryGrow)
		}
		j.growing = false
		told := j.full
		j.full = err != nil
		j.mu.Unlock()
		switch {
		case err != nil && !told:
			j.log.Error("the journal cannot grow: counts of new keys would be lost with the process", "err", err)
		case err == nil && told:
			j.log.Warn("the journal grows again", "slots", j.Stats().Slots)
		}
	}
}

// askToGrow requests growth when few slots are free. The caller holds j.mu.
func (j *Journal) askToGrow() {
	if j.growing || len(j.steps)*stepSlots >= j.maxSlots || j.closed.Load() || j.full && time.Now().Before(j.retryAt) {
		return
	}
	j.growing = true
	j.toGrow <- struct{}{} // never blocks: at most one request at a time
}

// adopt makes the free slots of a step available. The caller holds j.mu, or is Open.
func (j *Journal) adopt(slots []slot) {
	first := len(j.steps) * stepSlots
	j.steps = append(j.steps, slots)
	free := make([]int, 0, stepSlots+len(j.free))
	for i := stepSlots - 1; i >= 0; i-- { // lower slots are used first
		if slots[i].id == 0 {
			free = append(free, first+i)
		}
	}
	j.free = append(free, j.free...)
}
