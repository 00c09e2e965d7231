package client

import (
	"github.com/quorate/quorate/internal/elapsed"
	"github.com/quorate/quorate/internal/quota"
)

// clock is the process's time: the wall clock when it began, and from there what has
// passed, in suspend too: leases run out meanwhile.
type clock struct{ *elapsed.Clock }

func newClock(passed *elapsed.Clock) *clock { return &clock{passed} }

func (c *clock) now() quota.Time { return quota.Time(c.Start().UnixNano() + int64(c.Since())) }
