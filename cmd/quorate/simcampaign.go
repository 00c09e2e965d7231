package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/sim"
	"github.com/quorate/quorate/internal/sim/scenario"
)

// maxCampaign is the most scenarios of one campaign.
const maxCampaign = 10_000_000

// campaign is "quorate sim --campaign": random scenarios, several at once.
type campaign struct {
	*simulator
	mu     sync.Mutex
	next   uint64 // seed to play
	played int
	asked  map[sim.Property]int
	broken []campaignFault
	node   float64 // node-seconds
	began  time.Time
}

// campaignFault is a seed with what did not hold in it. Fields are added, never renamed.
type campaignFault struct {
	Seed   uint64       `json:"seed"`
	Broken []sim.Breach `json:"broken"`
	Replay string       `json:"replay"`
}

// campaignLine is what "quorate sim --campaign --json" prints. Fields are added,
// never renamed.
type campaignLine struct {
	Scenarios   int                  `json:"scenarios"`
	From        uint64               `json:"from"`
	Checked     map[sim.Property]int `json:"checked"`
	Failed      int                  `json:"failed"`
	Faults      []campaignFault      `json:"faults"`
	NodeSeconds float64              `json:"node_seconds"`
	Seconds     float64              `json:"seconds"`
}

func (s *simulator) runCampaign(ctx context.Context, args []string) error {
	switch {
	case len(args) > 0:
		return usagef("--campaign makes its own scenarios; leave %s out", args[0])
	case s.campaign < 1 || s.campaign > maxCampaign:
		return usagef("--campaign: %d; must be 1 to %d", s.campaign, maxCampaign)
	case s.minutes < 0:
		return usagef("--minutes: %v; must be above 0, or left out", s.minutes)
	}
	c := &campaign{simulator: s, next: s.seed, asked: map[sim.Property]int{}, began: time.Now()}
	if s.minutes > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(s.minutes*float64(time.Minute)))
		defer cancel()
	}
	c.play(ctx)
	slices.SortFunc(c.broken, func(a, b campaignFault) int { return cmp.Compare(a.Seed, b.Seed) })
	return c.report()
}

// play plays scenarios on all processors until there are enough, or time is up.
func (c *campaign) play(ctx context.Context) {
	var wg sync.WaitGroup
	stop := c.showing()
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				seed, ok := c.take()
				if !ok || ctx.Err() != nil {
					return
				}
				c.add(seed, sim.Judge(sim.Campaign(seed)))
			}
		})
	}
	wg.Wait()
	stop()
}

func (c *campaign) take() (seed uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	seed = c.next
	c.next++
	return seed, seed-c.seed < uint64(c.campaign)
}

func (c *campaign) add(seed uint64, v sim.Verdict) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.played++
	c.node += v.NodeSeconds
	for _, p := range v.Asked {
		c.asked[p]++
	}
	if len(v.Broken) > 0 {
		c.broken = append(c.broken, campaignFault{seed, v.Broken, fmt.Sprintf("quorate sim --campaign 1 --seed %d", seed)})
	}
}

// showing tells people on a terminal how far the campaign is.
func (c *campaign) showing() (stop func()) {
	w := c.cmd.ErrOrStderr()
	if !onTerminal(w) {
		return func() {}
	}
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				fmt.Fprint(w, "\r\x1b[K")
				return
			case <-tick.C:
				c.mu.Lock()
				fmt.Fprintf(w, "\r\x1b[K%d of %d scenarios, %d failed", c.played, c.campaign, len(c.broken))
				c.mu.Unlock()
			}
		}
	})
	return func() { close(quit); wg.Wait() }
}

// report prints what came of the campaign. Of one scenario also the file.
func (c *campaign) report() error {
	out := c.cmd.OutOrStdout()
	took := time.Since(c.began).Seconds()
	if c.json {
		line := campaignLine{c.played, c.seed, c.asked, len(c.broken), append([]campaignFault{}, c.broken...), c.node, took}
		b, err := json.Marshal(line)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s\n", b)
		return c.failed()
	}
	if c.campaign == 1 {
		fmt.Fprintf(out, "%s\n", scenario.Format(sim.Campaign(c.seed)))
	}
	fmt.Fprintf(out, "%d random scenarios from seed %d, %.0f node-seconds in %.0f s\n\n", c.played, c.seed, c.node, took)
	t := newTable("PROPERTY", "SCENARIOS", "FAILED")
	for _, p := range sim.Properties() {
		t.row(string(p), strconv.Itoa(c.asked[p]), strconv.Itoa(c.failures(p)))
	}
	if err := t.write(out); err != nil {
		return err
	}
	for _, f := range c.broken {
		for _, b := range f.Broken {
			fmt.Fprintf(out, "\nseed %d: %s: %s\n  %s\n", f.Seed, b.Property, b.What, f.Replay)
		}
	}
	return c.failed()
}

// failed is the exit code.
func (c *campaign) failed() error {
	if len(c.broken) == 0 {
		return nil
	}
	return &exitError{fmt.Errorf("%d of %d scenarios failed; the first is %s", len(c.broken), c.played, c.broken[0].Replay), exitNo}
}

func (c *campaign) failures(p sim.Property) (n int) {
	for _, f := range c.broken {
		if slices.ContainsFunc(f.Broken, func(b sim.Breach) bool { return b.Property == p }) {
			n++
		}
	}
	return n
}
