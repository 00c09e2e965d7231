package client

import (
	"github.com/quorate/quorate/internal/elapsed"
	"github.com/quorate/quorate/internal/quota"
)

// clock is the process's clock: the wall clock at the start, plus the elapsed time, including
// suspension, because leases expire during it.
type clock struct{ *elapsed.Clock }

func newClock(passed *elapsed.Clock) *clock { return &clock{passed} }

func (c *clock) now() quota.Time { return quota.Time(c.Start().UnixNano() + int64(c.Since())) }
