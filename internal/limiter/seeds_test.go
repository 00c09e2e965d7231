package limiter_test

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

func tokens(n int64) quota.Units { return quota.FromTokens(n) }

func limitOf(t quota.Tier) *quota.Limit {
	l := &quota.Limit{LimitName: quota.LimitName{Namespace: "test", Limit: "x"}}
	l.SetFirst(t)
	return l
}

func bucketOf(n int64, per time.Duration, burst int64) *quota.Limit {
	return limitOf(quota.Tier{Rate: quota.Rate{Tokens: n, Per: per}, Burst: burst})
}

func meterOf(l *quota.Limit, now quota.Time) limiter.Meter {
	t := l.First()
	return limiter.NewMeter(&t, now)
}

// TestSalesforceWindow has the numbers of "Coordinated Rate Limiting in Microservices": a system time of 162731878077
// ms and windows of 10 s.
func TestSalesforceWindow(t *testing.T) {
	const ms = quota.Time(time.Millisecond)
	l := limitOf(quota.Window(quota.FixedWindow, 1000, 10*time.Second))
	tier := l.First()
	now := 162731878077 * ms
	for _, later := range []time.Duration{0, 100 * time.Millisecond} {
		if start, end := limiter.Window(&tier, now.Add(later)); start != 162731870000*ms || end != 162731880000*ms {
			t.Fatalf("%v later: window %d to %d", later, start, end)
		}
	}
	m := meterOf(l, now)
	for i := range 1000 {
		if !m.Take(now, l, tokens(1), 0).Allowed {
			t.Fatalf("call %d of 1000 is refused", i+1)
		}
	}
	v := m.Take(now, l, tokens(1), 0)
	if v.Allowed || v.RetryAfter != 1923*time.Millisecond || v.Never {
		t.Errorf("call 1001: %+v, want a refusal until the window ends in 1.923 s", v)
	}
	end := 162731880000 * ms
	if m.Take(end-1, l, tokens(1), 0).Allowed || !m.Take(end, l, tokens(1000), 0).Allowed {
		t.Error("the count begins anew when the window ends, not before")
	}
}

// TestTwoPerSecond has the numbers of "Distributed rate limiting in Go": of five calls each second two pass, and
// nothing is carried over.
func TestTwoPerSecond(t *testing.T) {
	l := limitOf(quota.Window(quota.PeriodicRefill, 2, time.Second))
	now := quota.Time(1_700_000_000_123_456_789)
	m := meterOf(l, now)
	for second := range 10 {
		passed := 0
		for range 5 {
			if m.Take(now, l, tokens(1), 0).Allowed {
				passed++
			}
		}
		if passed != 2 {
			t.Errorf("second %d: %d of 5 passed, want 2", second, passed)
		}
		now = now.Add(time.Second)
	}
	// After a pause the period begins with the next use, not in the middle.
	now = now.Add(10*time.Second + 700*time.Millisecond)
	if !m.Take(now, l, tokens(2), 0).Allowed {
		t.Error("two pass after a pause")
	}
	if v := m.Take(now.Add(999*time.Millisecond), l, tokens(1), 0); v.Allowed || v.RetryAfter != time.Millisecond {
		t.Errorf("999 ms after that: %+v, want a refusal for 1 ms more", v)
	}
}

// TestQuotaserviceScenarios plays the scenarios of square/quotaservice's README that are about one bucket.
func TestQuotaserviceScenarios(t *testing.T) {
	l := bucketOf(50, time.Second, 100) // its defaults
	l.MaxWait, l.MaxDebt = time.Second, 10*time.Second
	now := quota.Time(1_700_000_000_000_000_000)

	// 1: there are tokens.
	m := meterOf(l, now)
	if v := m.Take(now, l, tokens(1), quota.LimitsWait); !v.Allowed || v.Wait != 0 {
		t.Errorf("scenario 1: %+v", v)
	}

	// 2: a caller that takes more than the level passes at once; the next one waits for it.
	if v := m.Take(now, l, tokens(124), quota.LimitsWait); !v.Allowed || v.Wait != 0 {
		t.Errorf("scenario 2, 124 of 99: %+v, want at once", v)
	}
	if v := m.Take(now, l, tokens(10), quota.LimitsWait); !v.Allowed || v.Wait != 500*time.Millisecond {
		t.Errorf("scenario 2, the next: %+v, want a wait of 0.5 s for 25 tokens at 50/s", v)
	}

	// 4: the wait would be too long for the caller, or the limit; nothing is taken.
	level := m.Level()
	if v := m.Take(now, l, tokens(1), 699*time.Millisecond); v.Allowed || !v.TooLong || v.RetryAfter != time.Millisecond {
		t.Errorf("scenario 4, a caller with 699 ms: %+v, want too long by 1 ms", v)
	}
	m.Add(-tokens(25)) // the wait is now 1.2 s
	level -= tokens(25)
	for _, patience := range []time.Duration{quota.LimitsWait, time.Hour} { // can only lower it
		if v := m.Take(now, l, tokens(1), patience); v.Allowed || !v.TooLong || v.RetryAfter != 200*time.Millisecond {
			t.Errorf("scenario 4, beyond the limit's wait: %+v", v)
		}
	}
	if m.Level() != level {
		t.Errorf("scenario 4: refusals claimed %d", level-m.Level())
	}

	// Debt has a bound: 10 s at 50/s, which with a full bucket is 600 at once.
	m = meterOf(l, now)
	if v := m.Take(now, l, tokens(601), quota.LimitsWait); v.Allowed || !v.Never {
		t.Errorf("601: %+v, want never", v)
	}
	if v := m.Take(now, l, tokens(600), quota.LimitsWait); !v.Allowed || v.Wait != 0 {
		t.Errorf("600: %+v", v)
	}
	if v := m.Take(now, l, tokens(1), quota.LimitsWait); v.Allowed || v.RetryAfter != 9*time.Second {
		t.Errorf("after them: %+v, want to be asked again when the wait is 1 s", v)
	}

	// 6: a call is charged after the fact, by its milliseconds.
	m = meterOf(l, now)
	if v := m.Take(now, l, tokens(1), quota.LimitsWait); !v.Allowed {
		t.Errorf("scenario 6: %+v", v)
	}
	if m.Add(-tokens(149)); m.Level() != tokens(-50) {
		t.Errorf("scenario 6: level %d", m.Level())
	}
	if v := m.Take(now, l, tokens(1), quota.LimitsWait); !v.Allowed || v.Wait != time.Second {
		t.Errorf("scenario 6, the next: %+v, want a wait of 1 s", v)
	}
}
