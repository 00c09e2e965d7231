package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/quorate/quorate/internal/testspeed"
)

// TestIdleNodesAreSilent: where nobody asks for anything, members have nothing to report, however
// many ranges there are.
func TestIdleNodesAreSilent(t *testing.T) {
	testspeed.Full(t)
	c := newTrio(t, 64)
	reports := func() (sum float64) {
		for _, n := range c.running() {
			sum += testutil.ToFloat64(n.stats.reports)
		}
		return sum
	}
	c.eventually(30*time.Second, "nothing is reported for two seconds", func() error {
		before := reports()
		time.Sleep(2 * time.Second) // reports are counted in this time
		if n := reports() - before; n > 2 {
			return fmt.Errorf("%.0f reports in two seconds of three idle nodes with 64 ranges", n)
		}
		return nil
	})
}
