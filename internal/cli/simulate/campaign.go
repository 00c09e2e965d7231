package simulate

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/sim"
)

// maxCampaign bounds the scenarios of one campaign.
const maxCampaign = 10_000_000

// campaign is one run of "quorate sim --campaign": random scenarios, several in parallel.
type campaign struct {
	*simulator
	mu     sync.Mutex
	next   uint64 // next seed to play
	played int
	counts map[sim.Trait]campaignCount // also of properties, in the group "property"
	broken []campaignFault
	node   float64 // node-seconds
	// digest is a sum over all played scenarios, so that it does not depend on their order.
	digest uint64
	// hardest is the worst excess, in tokens, of all scenarios in which a hard ceiling is exact.
	// loosest is the largest part of the allowed room that was used, of those in which clocks or
	// the delay of an answer leave some; nearest the same, of those held to soft_bound.
	hardest, loosest, nearest campaignWorst
	began                     time.Time
	stopped                   bool // by the user, before all were played
}

// campaignCount counts the scenarios with some trait, and those of them that failed.
type campaignCount struct {
	Scenarios int `json:"scenarios"`
	Failed    int `json:"failed"`
}

// campaignWorst is the largest value of a measure, its seed, and how many scenarios it was taken
// from. Of equal values the lowest seed wins.
type campaignWorst struct {
	Scenarios int     `json:"scenarios"`
	Value     float64 `json:"value"`
	Seed      uint64  `json:"seed"`
}

func (w *campaignWorst) see(value float64, seed uint64) {
	if w.Scenarios == 0 || value > w.Value || value == w.Value && seed < w.Seed {
		w.Value, w.Seed = value, seed
	}
	w.Scenarios++
}

// campaignFault is a seed and what failed in its scenario. Fields may be added, but not renamed.
type campaignFault struct {
	Seed   uint64       `json:"seed"`
	Broken []sim.Breach `json:"broken"`
	Replay string       `json:"replay"`
}

// inProperties is the group in which a campaign counts properties.
const inProperties = "property"

func (s *simulator) runCampaign(ctx context.Context, args []string) error {
	switch {
	case len(args) > 0:
		return exit.Usagef("--campaign makes its own scenarios; leave %s out", args[0])
	case s.campaign < 1 || s.campaign > maxCampaign:
		return exit.Usagef("--campaign %d: must be 1 to %d", s.campaign, maxCampaign)
	case s.minutes < 0:
		return exit.Usagef("--minutes %v: must be above 0, or left out", s.minutes)
	}
	c := &campaign{simulator: s, next: s.seed, counts: map[sim.Trait]campaignCount{}, began: time.Now()}
	limited := ctx
	if s.minutes > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, time.Duration(s.minutes*float64(time.Minute)))
		defer cancel()
	}
	c.play(limited)
	c.stopped = ctx.Err() != nil && c.played < s.campaign
	slices.SortFunc(c.broken, func(a, b campaignFault) int { return cmp.Compare(a.Seed, b.Seed) })
	return c.report()
}

// play plays scenarios on all processors until there are enough, or time is up. It finishes the
// scenarios under way, so that the played seeds have no gap.
func (c *campaign) play(ctx context.Context) {
	var wg sync.WaitGroup
	stop := c.showing()
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for ctx.Err() == nil {
				c.mu.Lock()
				seed := c.next
				c.next++
				c.mu.Unlock()
				if seed-c.seed >= uint64(c.campaign) {
					return
				}
				s := sim.Campaign(seed)
				c.add(&s, sim.Judge(s))
			}
		})
	}
	wg.Wait()
	stop()
}

func (c *campaign) add(s *sim.Scenario, v sim.Verdict) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.played++
	c.node += v.NodeSeconds
	c.digest += digest(s.Seed, &v)
	failed := len(v.Broken) > 0
	for _, t := range sim.Traits(s) {
		c.count(t, failed)
	}
	for _, p := range v.Asked {
		c.count(sim.Trait{Group: inProperties, Name: string(p)}, slices.ContainsFunc(v.Broken, func(b sim.Breach) bool { return b.Property == p }))
		switch {
		case p == sim.SoftBound:
			c.nearest.see(v.Judged/v.Most, s.Seed)
		case p == sim.HardExact && v.Most > sim.Exact:
			c.loosest.see(v.Judged/v.Most, s.Seed)
		case p == sim.HardExact:
			c.hardest.see(v.Judged, s.Seed)
		}
	}
	if failed {
		c.broken = append(c.broken, campaignFault{s.Seed, v.Broken, fmt.Sprintf("quorate sim --campaign 1 --seed %d", s.Seed)})
	}
}

func (c *campaign) count(t sim.Trait, failed bool) {
	n := c.counts[t]
	n.Scenarios++
	if failed {
		n.Failed++
	}
	c.counts[t] = n
}

// digest hashes the outcome of a scenario: the same program and seed always give the same digest, and
// another algorithm hardly ever does.
func digest(seed uint64, v *sim.Verdict) uint64 {
	h := fnv.New64a()
	fmt.Fprintln(h, seed, v.Attempted, v.Admitted, v.Ideal, v.Over, v.Under, v.Asked, v.Reports, v.Steps, len(v.Broken))
	return h.Sum64()
}

// showing prints the progress of the campaign: every second on a terminal, every half minute
// elsewhere.
func (c *campaign) showing() (stop func()) {
	w := c.cmd.ErrOrStderr()
	if !render.OnTerminal(w) {
		return render.Every(30*time.Second, func(time.Duration) { fmt.Fprintln(w, c.progress()) })
	}
	end := render.Every(time.Second, func(time.Duration) {
		text := c.progress()
		c.mu.Lock()
		defer c.mu.Unlock()
		fmt.Fprint(w, "\r\x1b[K"+render.BarText(int64(c.played), int64(c.campaign))+text)
	})
	return func() {
		end()
		fmt.Fprint(w, "\r\x1b[K")
	}
}

// progress returns the progress of the campaign, and an estimate of the remaining time.
func (c *campaign) progress() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := fmt.Sprintf("%d of %d scenarios, %d failed", c.played, c.campaign, len(c.broken))
	if c.played > 0 {
		left := time.Since(c.began) / time.Duration(c.played) * time.Duration(c.campaign-c.played)
		s += fmt.Sprintf(", %v left", left.Round(time.Second))
	}
	return s
}

// failed returns the error with the exit code.
func (c *campaign) failed() error {
	switch {
	case len(c.broken) > 0:
		return exit.Errorf(exit.No, "%d of %d scenarios failed; the first is %s", len(c.broken), c.played, c.broken[0].Replay)
	case c.stopped:
		return fmt.Errorf("interrupted after %d of %d scenarios", c.played, c.campaign)
	}
	return nil
}
