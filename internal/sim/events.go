package sim

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// event is something that happens at a time, at a node or globally. n orders the events of one
// moment by their creation.
type event struct {
	at   quota.Time
	n    uint64
	f    func()
	to   *node             // node whose process it needs; nil for none
	from *node             // sender of a message
	inc  quota.Incarnation // of to; no other process sees the event
	// slept is how long the machine of to had been suspended when the event was created: timers
	// stop during that time.
	slept time.Duration
	what  class
}

// class determines what happens to an event while its node is paused.
type class uint8

const (
	timer   class = iota // queued without bound: there are few
	message              // queued up to a bound
	request              // queued up to a bound
)

// events is a heap with the earliest event first. container/heap would allocate for every event.
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
