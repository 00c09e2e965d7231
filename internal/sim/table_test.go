package sim

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// designRow is a row of the table that the design started from: one key, 1000/s, burst 1000, sync
// 100 ms, one-way delay 1 ms, 20 s. Its figures for the algorithms come from a discarded prototype.
type designRow struct {
	pattern            string
	load               Load
	nodes              int
	naive, debt        figure // count-sync without and with debt
	hard, soft         figure // a first version of the division
	hardMost, softMost figure // the most by which the real code may be off
}

// figure compares admissions with the ideal, in percent, and gives the worst excess over the
// envelope, in bursts.
type figure struct{ pct, excess float64 }

func (f figure) String() string { return fmt.Sprintf("%+7.1f%% %6.2f", f.pct, f.excess) }

// The bounds are a little above the worst of ten seeds. Known weaknesses remain, because no check
// here waits for a grant: a hard limit under an on/off load over 50 nodes admits 3 % less than the
// ideal, and under a moving hot spot 1.5 % less. A surge over 50 idle nodes has an excess of a
// tenth of a burst under soft.
var designRows = []designRow{
	{"even 3x", Load{Rate: 3000}, 10, figure{178, 37}, figure{.8, .25}, figure{-.1, 0}, figure{0, .01}, figure{.7, none}, figure{.3, .06}},
	{"even 20x", Load{Rate: 20_000}, 10, figure{828, 170}, figure{1.2, 1.8}, figure{0, 0}, figure{1.3, .29}, figure{.3, none}, figure{.3, .1}},
	{"skew 90% 3x", Load{Rate: 3000, Spread: Spread{Skew: .9}}, 10, figure{25, 5.2}, figure{-.2, 0}, figure{-.5, 0}, figure{-.4, 0}, figure{.5, none}, figure{.3, .06}},
	{"moving 0.95x", Load{Rate: 950, Spread: Spread{Moving: 500 * time.Millisecond}}, 10, figure{0, 0}, figure{0, 0}, figure{-1.8, 0}, figure{0, 0}, figure{2, none}, figure{.1, .02}},
	{"on/off 3x", Load{Rate: 3000, On: time.Second, Off: time.Second}, 50, figure{49, 9.7}, figure{1.3, .27}, figure{-3.1, 0}, figure{-.5, .02}, figure{3.6, none}, figure{.5, .08}},
	{"surge 10x", Load{Rate: 10_000, From: 5 * time.Second}, 50, figure{823, 130}, figure{.9, .93}, figure{-.2, 0}, figure{0, .07}, figure{.5, none}, figure{.5, .15}},
}

// none is no excess, except for the rounding of a token.
const none = rounding / 1000

// play returns the figure of an algorithm, the worst of the seeds in both parts.
func (row designRow) play(a Algorithm, c quota.Ceiling) figure {
	worst := figure{}
	for seed := range seedsEach() {
		res := Run(Scenario{
			Seed: seed + 1, Nodes: row.nodes, Duration: 20 * time.Second, Limit: limit(1000, 1000, c),
			Delay: time.Millisecond, Loads: []Load{row.load}, Algorithm: a,
		})
		if e := 100 * res.Error(); math.Abs(e) > math.Abs(worst.pct) {
			worst.pct = e
		}
		worst.excess = max(worst.excess, res.Excess/1000)
	}
	return worst
}

// TestDesignTable replays the table of the design for all algorithms, and guards against a loss of
// accuracy.
func TestDesignTable(t *testing.T) {
	testspeed.Full(t)
	long(t)
	t.Parallel()
	var out strings.Builder
	line := func(cells ...any) { fmt.Fprintf(&out, strings.Repeat("%-16v", len(cells))+"\n", cells...) }
	line("load", "nodes", "count-sync", "(prototype)", "with debt", "(prototype)", "equal-shares", "drop-ratio", "hard", "(prototype)", "soft", "(prototype)")
	for _, row := range designRows {
		naive, debt := row.play(CountSync, quota.Soft), row.play(CountSyncDebt, quota.Soft)
		shares, drop := row.play(EqualShares, quota.Soft), row.play(DropRatio, quota.Soft)
		hard, soft := row.play(Quorate, quota.Hard), row.play(Quorate, quota.Soft)
		line(row.pattern, row.nodes, naive, row.naive, debt, row.debt, shares, drop, hard, row.hard, soft, row.soft)
		row.check(t, "count-sync, which has to be as bad as it was", naive, figure{row.naive.pct * 1.1, row.naive.excess * 1.1})
		if naive.pct < row.naive.pct*.9 {
			t.Errorf("%s: count-sync admits only %v, the prototype %v", row.pattern, naive, row.naive)
		}
		row.check(t, "hard", hard, row.hardMost)
		row.check(t, "soft", soft, row.softMost)
		if row.naive.pct > 0 && 10*math.Abs(soft.pct) > naive.pct {
			t.Errorf("%s: soft %v is not ten times nearer to the ideal than count-sync %v", row.pattern, soft, naive)
		}
	}
	t.Logf("admitted against the ideal, and worst excess in bursts; the worst of %d seeds\n%s", seedsEach(), &out)
}

func (row designRow) check(t *testing.T, name string, got, most figure) {
	t.Helper()
	if math.Abs(got.pct) > most.pct+.05 || got.excess > most.excess {
		t.Errorf("%s, %d nodes: %s: %v; at most %v", row.pattern, row.nodes, name, got, most)
	}
}
