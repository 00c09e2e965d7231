package client

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// clock is the process's time: the wall clock when it began, and monotonic from
// there.
type clock struct{ start time.Time }

func newClock() *clock { return &clock{time.Now()} }

func (c *clock) now() quota.Time { return quota.Time(c.start.UnixNano() + int64(time.Since(c.start))) }
