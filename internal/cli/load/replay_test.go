package load

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestMoments checks that moments fall into the seconds of the log, in its order, and are
// reproducible.
func TestMoments(t *testing.T) {
	start := time.Date(2015, 5, 17, 10, 5, 3, 0, time.UTC)
	var reqs []request
	for _, second := range []int{0, 0, 0, 1, 5, 5, 3600} {
		reqs = append(reqs, request{at: start.Add(time.Duration(second) * time.Second)})
	}
	at := moments(reqs, 1)
	if !slices.IsSorted(at) || !slices.Equal(at, moments(reqs, 1)) || slices.Equal(at, moments(reqs, 2)) {
		t.Errorf("%v", at)
	}
	for i := range at {
		if got := start.Add(at[i]).Truncate(time.Second); !got.Equal(reqs[i].at) {
			t.Errorf("request %d at %v is played at %v", i, reqs[i].at, got)
		}
	}
}

// TestHours checks that each hour has one bar, in proportion to the highest.
func TestHours(t *testing.T) {
	at := func(day, hour int, attempted, refused int64) hourReport {
		return hourReport{time.Date(2015, 5, day, hour, 0, 0, 0, time.UTC), attempted, refused}
	}
	var b strings.Builder
	writeHours(&b, []hourReport{at(17, 23, 9, 8), at(18, 0, 5, 0), at(18, 1, 5, 1), at(18, 2, 9, 4), at(20, 12, 9, 7)})
	const want = `
refused in each hour (UTC), at most 8, from 2015-05-17 23:00 on; · is requests and no refusal:
            00    06    12    18
2015-05-17                         █  8 of 9
2015-05-18  ·▁▄                       5 of 19
2015-05-20              ▇             7 of 9
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &b, want)
	}
	b.Reset()
	if writeHours(&b, []hourReport{at(17, 0, 9, 0)}); b.Len() > 0 {
		t.Errorf("nothing was refused: %s", &b)
	}
	var many []hourReport
	for d := range 40 {
		many = append(many, at(1+d, 0, 2, 1))
	}
	writeHours(&b, many)
	if lines := strings.Split(b.String(), "\n"); len(lines) != 3+maxChartDays+2 || lines[len(lines)-2] != "(and more, until 2015-06-09)" {
		t.Errorf("%d lines: %s", len(lines), &b)
	}
}

func TestTierText(t *testing.T) {
	for want, tier := range map[string]quota.Tier{
		"10/s, burst 20":       {Rate: quota.Rate{Tokens: 10, Per: time.Second}, Burst: 20},
		"50 per 10s (sliding)": quota.Window(quota.SlidingWindow, 50, 10*time.Second),
		"7 per 1h (periodic)":  quota.Window(quota.PeriodicRefill, 7, time.Hour),
		"100 per day (UTC)":    quota.Per(100, quota.Calendar{Unit: quota.Day}),
		"3 per 1m (fixed)":     quota.Window(quota.FixedWindow, 3, time.Minute),
		"1/90s, burst 1000":    {Rate: quota.Rate{Tokens: 1, Per: 90 * time.Second}, Burst: 1000},
	} {
		if got := tierText(&tier); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestReplayIsInterrupted checks that an interrupt ends a command that waits for more input.
func TestReplayIsInterrupted(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	rep := &replayer{log: "-", key: "ip"}
	done := make(chan error, 1)
	go func() { done <- rep.read(ctx, r) }()
	cancel()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Error(err)
	}
}
