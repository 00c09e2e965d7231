package elapsed

import (
	"testing"
	"time"
)

// machine has a wall clock, a monotonic clock that stops in suspend, and a boot clock that does not.
type machine struct{ wall, mono, boot time.Duration }

func (m *machine) run(d time.Duration)     { m.wall, m.mono, m.boot = m.wall+d, m.mono+d, m.boot+d }
func (m *machine) suspend(d time.Duration) { m.wall, m.boot = m.wall+d, m.boot+d }
func (m *machine) set(d time.Duration)     { m.wall += d }

// TestSuspendCounts checks that the first reading after a suspend includes it, and that setting or
// drift of the wall clock does not count as suspend.
func TestSuspendCounts(t *testing.T) {
	m := &machine{wall: 1000 * time.Hour, mono: time.Hour, boot: 7 * time.Hour}
	zero := m.mono
	c := Of(time.Now(), func() (int64, time.Duration) { return int64(m.wall), m.mono - zero }, func() (time.Duration, bool) { return m.boot, true })
	began := m.boot
	want := func(after string) {
		t.Helper()
		if got := c.Since(); got != m.boot-began {
			t.Errorf("after %s: %v since the start, want %v", after, got, m.boot-began)
		}
	}
	m.run(time.Second)
	want("a second")
	m.suspend(5 * time.Second)
	want("5 s in suspend")
	m.run(time.Second)
	m.suspend(300 * time.Millisecond)
	want("another suspend")
	m.set(time.Hour)
	want("the wall clock was set ahead")
	m.set(-2 * time.Hour)
	want("the wall clock was set back")
	for range 1000 {
		m.run(time.Second)
		m.set(100 * time.Microsecond)
		want("a second of a wall clock that drifts")
	}
}

// TestNoticed checks that Noticed lacks a suspend until Since has measured it, and nothing else.
func TestNoticed(t *testing.T) {
	m := &machine{wall: 1000 * time.Hour, boot: 7 * time.Hour}
	c := Of(time.Now(), func() (int64, time.Duration) { return int64(m.wall), m.mono }, func() (time.Duration, bool) { return m.boot, true })
	want := func(want time.Duration) {
		t.Helper()
		if got := c.Noticed(); got != want {
			t.Errorf("%v since the start, want %v", got, want)
		}
	}
	m.run(time.Second)
	m.set(time.Hour)
	want(time.Second)
	m.suspend(5 * time.Second)
	want(time.Second)
	c.Since()
	want(6 * time.Second)
}

// TestNeverBack checks that the clock never runs backwards on this machine.
func TestNeverBack(t *testing.T) {
	c := New()
	last := c.Since()
	for range 10_000 {
		now := c.Since()
		if now < last {
			t.Fatalf("%v after %v", now, last)
		}
		last = now
	}
	if last > time.Minute {
		t.Errorf("%v have passed", last)
	}
}

func BenchmarkSince(b *testing.B) {
	c := New()
	for b.Loop() {
		c.Since()
	}
}
