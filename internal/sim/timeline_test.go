package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestTimeline prints every message, and the decisions in between, of a surge on three nodes: run
// it with -v. docs/explanation/accuracy.md shows the output, and the test checks what that page says about it.
func TestTimeline(t *testing.T) {
	r := newRun(Scenario{
		Seed: 1, Nodes: 3, Duration: 450 * time.Millisecond, Limit: limit(1000, 1000, quota.Soft), Skew: -1,
		Delay: time.Millisecond, Near: true, Check: true,
		Loads: []Load{{From: 200 * time.Millisecond, Rate: 20_000}},
	})
	reports, grants := 0, 0
	whys := map[quota.Why]int{}
	since := func() string { return fmt.Sprintf("%7.2f ms", (r.since()-200*time.Millisecond).Seconds()*1000) }
	r.Decided = func(_ time.Duration, _ int, _ string, d quota.Decision, _ bool) { whys[d.Why]++ }
	r.heard = func(n *node, rep *quota.Report, g *quota.Grant) {
		if len(whys) > 0 {
			t.Logf("            decided %v; %d admitted in all, the ideal %d", whys, r.res.Admitted, r.res.Ideal)
			clear(whys)
		}
		if rep != nil {
			for _, e := range rep.Entries {
				reports++
				t.Logf("%s  report of %s: used %v, overdrawn %v, refused %v, holds %v, wants %v", since(), n.id, toks(e.Used), toks(e.Overdrawn), toks(e.Refused), toks(e.Held), toks(e.Want))
			}
			return
		}
		for _, e := range g.Entries {
			if e.Recall {
				t.Logf("%s  recall to %s", since(), n.id)
				continue
			}
			grants++
			t.Logf("%s  grant to %s: %v tokens, %v/s up to %v; level %v, free %v, unseen %v, others %v/s, again in %v",
				since(), n.id, toks(e.Tokens), toks(e.Rate), toks(e.Cap), toks(e.Level), toks(e.Free), toks(e.Unseen), toks(e.Others), e.Again)
		}
	}
	r.start()
	r.until(r.Start.Add(r.Duration))
	r.end()
	t.Logf("%d attempted, %d admitted, the ideal %d; worst excess %.1f tokens; %d reports, %d grants", r.res.Attempted, r.res.Admitted, r.res.Ideal, r.res.Excess, reports, grants)
	if r.res.Excess > 100 || len(r.res.Violations) > 0 {
		t.Errorf("%.1f tokens beyond the envelope, violations %v; want at most a tenth of the burst, and none", r.res.Excess, r.res.Violations)
	}
}

func toks(u quota.Units) string { return fmt.Sprintf("%.4g", float64(u)/float64(quota.Token)) }
