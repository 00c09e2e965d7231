package promclient

import (
	"reflect"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/quorate/quorate/client"
)

type fixed client.Stats

func (f fixed) Stats() client.Stats { return client.Stats(f) }

// TestMetrics checks that the metrics are valid, and that every counter in the stats has a metric.
func TestMetrics(t *testing.T) {
	var s client.Stats
	s.Decisions = map[client.DecisionMode]uint64{client.ModeGranted: 11, client.ModeFallback: 12}
	v := reflect.ValueOf(&s).Elem()
	next := uint64(1000)
	for _, f := range v.Fields() {
		switch f.Kind() {
		case reflect.Uint64:
			f.SetUint(next)
		case reflect.Int:
			f.SetInt(int64(next))
		default:
			continue
		}
		next++
	}
	c := New(fixed(s))
	if lint, err := testutil.CollectAndLint(c); err != nil || len(lint) > 0 {
		t.Errorf("%v %v", lint, err)
	}
	reg := prometheus.NewPedanticRegistry()
	if err := reg.Register(c); err != nil {
		t.Fatal(err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[float64]bool{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			seen[m.GetCounter().GetValue()+m.GetGauge().GetValue()] = true
		}
	}
	for n := uint64(1000); n < next; n++ {
		if !seen[float64(n)] {
			t.Errorf("field with %d of client.Stats is in no metric", n)
		}
	}
	want := "# HELP quorate_client_fallbacks_total Checks decided by the client's own limits.\n# TYPE quorate_client_fallbacks_total counter\nquorate_client_fallbacks_total 12\n"
	if err := testutil.CollectAndCompare(c, strings.NewReader(want), "quorate_client_fallbacks_total"); err != nil {
		t.Error(err)
	}
}
