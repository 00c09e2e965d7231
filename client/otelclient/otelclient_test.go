package otelclient

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/quorate/quorate/client"
)

type fixed client.Stats

func (f fixed) Stats() client.Stats { return client.Stats(f) }

// meter records registrations and reads them as an SDK would.
type meter struct {
	noop.Meter
	names    []string
	bad      string // the instrument whose creation fails
	callback metric.Callback
}

type instrument struct {
	noop.Int64ObservableCounter
	name string
}

type level struct {
	noop.Int64ObservableGauge
	name string
}

var errBad = errors.New("no such instrument")

func (m *meter) make(name string) error {
	m.names = append(m.names, name)
	if name == m.bad {
		return errBad
	}
	return nil
}

func (m *meter) Int64ObservableCounter(name string, _ ...metric.Int64ObservableCounterOption) (metric.Int64ObservableCounter, error) {
	return &instrument{name: name}, m.make(name)
}

func (m *meter) Int64ObservableGauge(name string, _ ...metric.Int64ObservableGaugeOption) (metric.Int64ObservableGauge, error) {
	return &level{name: name}, m.make(name)
}

func (m *meter) RegisterCallback(f metric.Callback, of ...metric.Observable) (metric.Registration, error) {
	if len(of) != len(m.names) {
		return nil, errBad
	}
	m.callback = f
	return noop.Registration{}, nil
}

// readings are values by name, with the mode where there is one.
type readings struct {
	noop.Observer
	values map[string]int64
}

func (r *readings) ObserveInt64(o metric.Int64Observable, v int64, opts ...metric.ObserveOption) {
	name := ""
	switch o := o.(type) {
	case *instrument:
		name = o.name
	case *level:
		name = o.name
	}
	attrs := metric.NewObserveConfig(opts).Attributes()
	if mode, ok := attrs.Value(modeKey); ok {
		name += " " + mode.AsString()
	}
	r.values[name] = v
}

// TestMetrics checks that every counter in the stats has a metric.
func TestMetrics(t *testing.T) {
	s := client.Stats{Decisions: map[client.DecisionMode]uint64{client.ModeGranted: 11, client.ModeFallback: 12}, Attached: true}
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
	m := &meter{}
	if _, err := Register(m, fixed(s)); err != nil {
		t.Fatal(err)
	}
	r := &readings{values: map[string]int64{}}
	if err := m.callback(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	seen := map[int64]bool{}
	for name, v := range r.values {
		seen[v] = true
		if !strings.HasPrefix(name, "quorate.client.") {
			t.Errorf("%s is not in quorate.client.", name)
		}
	}
	for want := uint64(1000); want < next; want++ {
		if !seen[int64(want)] {
			t.Errorf("no metric has field %d", want-1000)
		}
	}
	if got := r.values["quorate.client.decisions fallback"]; got != 12 {
		t.Errorf("decisions by fallback: %d, want 12", got)
	}
	if on, off := r.values["quorate.client.attached"], r.values["quorate.client.circuit_open"]; on != 1 || off != 0 {
		t.Errorf("attached %d, circuit open %d; want 1 and 0", on, off)
	}
}

// TestMeterFails checks that errors of the meter are returned.
func TestMeterFails(t *testing.T) {
	for _, bad := range []string{"quorate.client.decisions", "quorate.client.grants", "quorate.client.keys"} {
		if _, err := Register(&meter{bad: bad}, fixed{}); !errors.Is(err, errBad) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
