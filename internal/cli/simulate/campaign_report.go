package simulate

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/cli/build"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/sim"
	"github.com/quorate/quorate/internal/sim/scenario"
)

// CampaignLine is the output of "quorate sim --campaign -o json". Fields may be added, but not
// renamed.
type CampaignLine struct {
	Scenarios   int                                 `json:"scenarios"`
	From        uint64                              `json:"from"`
	Checked     map[sim.Property]int                `json:"checked"`
	Failed      int                                 `json:"failed"`
	Faults      []campaignFault                     `json:"faults"`
	NodeSeconds float64                             `json:"node_seconds"`
	Seconds     float64                             `json:"seconds"`
	Version     string                              `json:"version"`
	Draws       int                                 `json:"draws"`
	Fingerprint string                              `json:"fingerprint"`
	Interrupted bool                                `json:"interrupted"`
	HardExcess  campaignWorst                       `json:"hard_excess"`
	HardOfRoom  campaignWorst                       `json:"hard_of_room"`
	SoftOfBound campaignWorst                       `json:"soft_of_bound"`
	Counts      map[string]map[string]campaignCount `json:"counts"`
}

// report prints the results of the campaign. If it played a single scenario, report also prints its
// file.
func (c *campaign) report() error {
	out := c.cmd.OutOrStdout()
	if c.data() {
		if err := c.object(c.line()); err != nil {
			return err
		}
		return c.failed()
	}
	fmt.Fprintln(out, c.headline())
	if c.campaign == 1 {
		fmt.Fprintf(out, "\n%s", scenario.Format(sim.Campaign(c.seed)))
	}
	if err := c.writeCounts(out); err != nil {
		return err
	}
	c.writeNearest(out)
	for _, f := range c.broken {
		for _, b := range f.Broken {
			fmt.Fprintf(out, "\nseed %d: %s: %s\n  %s\n", f.Seed, b.Property, b.What, f.Replay)
		}
	}
	return c.failed()
}

func (c *campaign) line() CampaignLine {
	l := CampaignLine{
		Scenarios: c.played, From: c.seed, Checked: map[sim.Property]int{}, Failed: len(c.broken), Faults: append([]campaignFault{}, c.broken...),
		NodeSeconds: c.node, Seconds: time.Since(c.began).Seconds(), Version: build.Version, Draws: sim.Draws, Fingerprint: c.fingerprint(),
		Interrupted: c.stopped, HardExcess: c.hardest, HardOfRoom: c.loosest, SoftOfBound: c.nearest, Counts: map[string]map[string]campaignCount{},
	}
	for t, n := range c.counts {
		if t.Group == inProperties {
			l.Checked[sim.Property(t.Name)] = n.Scenarios
		}
		if l.Counts[t.Group] == nil {
			l.Counts[t.Group] = map[string]campaignCount{}
		}
		l.Counts[t.Group][t.Name] = n
	}
	return l
}

func (c *campaign) fingerprint() string { return fmt.Sprintf("%016x", c.digest) }

// headline returns a summary that can be quoted: what was played, by which program, and the result.
func (c *campaign) headline() string {
	outcome := "all clean"
	if n := len(c.broken); n > 0 {
		outcome = strconv.Itoa(n) + " failed"
	}
	of, noun := "", "random scenarios"
	if c.campaign == 1 {
		noun = "random scenario"
	}
	if c.stopped {
		of = fmt.Sprintf(" of %d (interrupted)", c.campaign)
	}
	return fmt.Sprintf("%d%s %s from seed %d: %s. %.0f node-seconds in %.0f s.\nversion %s, draws %d, fingerprint %s: the same program gives the same for the same seeds",
		c.played, of, noun, c.seed, outcome, c.node, time.Since(c.began).Seconds(), build.Version, sim.Draws, c.fingerprint())
}

// writeCounts prints the number of scenarios per trait.
func (c *campaign) writeCounts(out io.Writer) error {
	for _, group := range append([]string{inProperties}, sim.TraitGroups()...) {
		t := render.NewTable(strings.ToUpper(group), "SCENARIOS", "FAILED")
		for _, name := range c.names(group) {
			n := c.counts[sim.Trait{Group: group, Name: name}]
			t.Row(name, n.Scenarios, n.Failed)
		}
		if t.Len() == 0 {
			continue
		}
		fmt.Fprintln(out)
		if err := t.Write(out); err != nil {
			return err
		}
	}
	return nil
}

// names returns the names of a group: properties in their order, numbers by size, and others by
// count.
func (c *campaign) names(group string) (names []string) {
	if group == inProperties {
		for _, p := range sim.Properties() {
			names = append(names, string(p))
		}
		return names
	}
	for t := range c.counts {
		if t.Group == group {
			names = append(names, t.Name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		x, errX := strconv.Atoi(a)
		y, errY := strconv.Atoi(b)
		if errX == nil && errY == nil {
			return cmp.Compare(x, y)
		}
		n, m := c.counts[sim.Trait{Group: group, Name: a}], c.counts[sim.Trait{Group: group, Name: b}]
		return cmp.Or(cmp.Compare(m.Scenarios, n.Scenarios), cmp.Compare(a, b))
	})
	return names
}

// writeNearest prints how close the campaign came to the guarantees.
func (c *campaign) writeNearest(out io.Writer) {
	for i, w := range []struct {
		of   *campaignWorst
		form string
	}{
		{&c.hardest, "hard: at most %.3f tokens beyond the ceiling (seed %d), %d scenarios\n"},
		{&c.loosest, "hard, clocks differ or the leader decides: at most %.2f of what this allows (seed %d), %d scenarios\n"},
		{&c.nearest, "soft: at most %.2f of the stated bound (seed %d), %d scenarios\n"},
	} {
		if i == 0 {
			fmt.Fprintln(out)
		}
		if w.of.Scenarios > 0 {
			fmt.Fprintf(out, w.form, w.of.Value, w.of.Seed, w.of.Scenarios)
		}
	}
}
