package scenario

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/sim"
)

// Format writes a scenario as a document of a scenario file: [Parse] returns the same scenario,
// with the same run. It omits what a file cannot express, such as a log of requests or a load given
// by a function; [sim.Campaign] uses none of that.
func Format(s sim.Scenario) []byte {
	var b bytes.Buffer
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("seed: %d", s.Seed)
	line("duration: %v", s.Duration)
	line("nodes: %d", s.Nodes)
	if s.Clients > 0 {
		line("clients: %d", s.Clients)
		line("breaks: %s", num(s.Breaks))
	}
	line("sync: %v", s.Sync)
	line("network: {delay: %v, jitter: %v, loss: %s, duplicate: %s, reorder: %s}", s.Delay, s.Jitter, num(s.Loss), num(s.Repeat), num(s.Reorder))
	line("keys: {count: %d, zipf: %s}", max(1, s.Keys.Count), num(s.Keys.Zipf))
	if s.Entries > 0 {
		line("entries: %d", s.Entries)
	}
	if s.PerEntry > 0 {
		line("service: %v", s.PerEntry)
	}
	line("limit: %s", config.FormatLimit(s.Limit))
	line("hop: %v", s.Hop)
	if s.Hold > 0 {
		line("hold: %v", s.Hold)
	}
	line("election: %v", s.Election)
	line("skew: %v", max(0, s.Skew))
	line("drift: %s", num(s.Drift))
	line("near: %v", s.Near)
	line("load:")
	for i := range s.Loads {
		line("  - {%s}", loadText(&s.Loads[i]))
	}
	if len(s.Faults) > 0 {
		line("faults:")
	}
	for i := range s.Faults {
		line("  - {at: %v, %s}", s.Faults[i].At, faultText(&s.Faults[i]))
	}
	return b.Bytes()
}

func num(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func loadText(l *sim.Load) string {
	parts := []string{"from: " + l.From.String()}
	if l.To > 0 {
		parts = append(parts, "to: "+l.To.String())
	}
	parts = append(parts, "rate: "+num(math.Round(l.Rate*60))+"/m", "spread: "+spreadText(l.Spread))
	if l.On > 0 && l.Off > 0 {
		parts = append(parts, "on: "+l.On.String(), "off: "+l.Off.String())
	}
	if l.Clump > 1 {
		parts = append(parts, "clump: "+strconv.Itoa(l.Clump))
	}
	switch {
	case l.Look:
		parts = append(parts, "cost: 0")
	case l.Cost > 1:
		parts = append(parts, "cost: "+strconv.FormatInt(l.Cost, 10))
	}
	if l.Refund > 0 {
		parts = append(parts, "refund: "+num(l.Refund))
	}
	if l.Charge {
		parts = append(parts, "charge: true")
	}
	return strings.Join(parts, ", ")
}

func spreadText(s sim.Spread) string {
	switch {
	case len(s.Nodes) > 0:
		return "{nodes: " + list(s.Nodes) + "}"
	case s.Moving > 0:
		return "{moving: " + s.Moving.String() + "}"
	case s.Skew > 0:
		return "{skew: " + num(s.Skew) + "}"
	}
	return "even"
}

func faultText(f *sim.Fault) string {
	text := string(f.Kind) + ": "
	switch {
	case f.Kind == sim.Heal || f.Kind == sim.Reset:
		return text + "all"
	case f.Kind == sim.Resize:
		return text + FormatTiers(f.Tiers)
	case f.Kind == sim.Override:
		return text + num(float64(f.Scale)/quota.Million)
	case f.Kind == sim.Partition:
		var groups []string
		for _, g := range f.Groups {
			groups = append(groups, list(g))
		}
		text += "[" + strings.Join(groups, ", ") + "]"
	case f.Kind == sim.Switch:
		return text + f.Decide.String()
	case f.Leader:
		text += "leader"
	default:
		text += list(f.Nodes)
	}
	if f.Delay != 0 {
		text += ", by: " + f.Delay.String()
	}
	if f.For >= time.Millisecond {
		text += ", for: " + f.For.String()
	}
	return text
}

func list(nodes []int) string {
	var parts []string
	for _, n := range nodes {
		parts = append(parts, strconv.Itoa(n))
	}
	return "[" + strings.Join(parts, ", ") + "]"
}
