package sim

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// event is something that happens at a moment, at a node or to nobody in
// particular. n makes the order of events of one moment that of their making.
type event struct {
	at   quota.Time
	n    uint64
	f    func()
	to   *node // whose process it needs; nil is nobody's
	from *node // of a message: who sent it
	life int32 // of to; a process that has died since does not see it
	// slept is how long the machine of to had been suspended when this was set: timers stand still then.
	slept time.Duration
	what  class
}

// class says what becomes of an event while its node is paused.
type class uint8

const (
	timer   class = iota // waits, and there are few of them
	message              // waits in a bounded queue
	request              // waits in a bounded queue
)

// events is a heap with the earliest first. It is not container/heap: that
// allocates for every event.
type events []event

func (e event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.n < o.n }

func (e *events) push(x event) {
	h := append(*e, x)
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !x.before(&h[up]) {
			break
		}
		h[i], i = h[up], up
	}
	h[i] = x
	*e = h
}

func (e *events) pop() event {
	h := *e
	top, last := h[0], len(h)-1
	x := h[last]
	h[last] = event{}
	h = h[:last]
	*e = h
	if last == 0 {
		return top
	}
	i := 0
	for {
		down := 2*i + 1
		if down >= last {
			break
		}
		if r := down + 1; r < last && h[r].before(&h[down]) {
			down = r
		}
		if !h[down].before(&x) {
			break
		}
		h[i], i = h[down], down
	}
	h[i] = x
	return top
}
