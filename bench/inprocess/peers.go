package inprocess

import (
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/quorate/quorate/bench/suite"
)

// plenty is a rate and a burst that no run uses up.
const plenty = 1 << 40

func hotPeers() []suite.Subject {
	return []suite.Subject{
		subject("atomic add and compare", atomicAdd),
		subject(timeRate, timeRateHot),
	}
}

// atomicAdd is what counting alone costs: no refill, no clock.
func atomicAdd() (loop, error) {
	var used atomic.Int64
	return func(_, n int) (ok int) {
		for range n {
			ok += count(used.Add(1) <= 1<<62)
		}
		return ok
	}, nil
}

func timeRateHot() (loop, error) {
	l := rate.NewLimiter(1e12, plenty)
	return func(_, n int) (ok int) {
		for range n {
			ok += count(l.Allow())
		}
		return ok
	}, nil
}
