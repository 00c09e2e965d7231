package client

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/elapsed"
)

// TestClockInSuspend checks that the clock advances by the time for which the machine was
// suspended.
func TestClockInSuspend(t *testing.T) {
	wall, mono, boot := 1000*time.Hour, time.Duration(0), 7*time.Hour
	c := newClock(elapsed.Of(time.Unix(1_700_000_000, 0),
		func() (int64, time.Duration) { return int64(wall), mono }, func() (time.Duration, bool) { return boot, true }))
	began := c.now()
	wall, boot = wall+5*time.Second, boot+5*time.Second
	if got := c.now().Sub(began); got != 5*time.Second {
		t.Errorf("after 5 s in suspend the clock has moved by %v", got)
	}
}
