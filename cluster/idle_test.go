package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/internal/testspeed"
)

// TestIdleNodesAreSilent checks that idle members report nothing, however
// many ranges there are. It counts for more than two leases, because unanswered reports are repeated
// once a lease.
func TestIdleNodesAreSilent(t *testing.T) {
	testspeed.Full(t)
	c := newThreeNodes(t, 64)
	reports := func() (sum float64) {
		for _, n := range c.running() {
			sum += counted(t, n, "quorate_reports_sent_total")
		}
		return sum
	}
	c.eventually(60*time.Second, "nothing is reported for eight seconds", func() error {
		before := reports()
		time.Sleep(8 * time.Second) // reports are counted in this time
		if n := reports() - before; n > 2 {
			return fmt.Errorf("%.0f reports in eight seconds of three idle nodes with 64 ranges", n)
		}
		return nil
	})
}

// counted returns the value of a counter of a node.
func counted(t testing.TB, n *Node, name string) float64 {
	t.Helper()
	reg, ok := n.cfg.Registry.(*prometheus.Registry)
	if !ok {
		t.Fatal("no registry")
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("there is no %s", name)
	return 0
}
