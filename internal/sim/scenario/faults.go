package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/sim"
)

const faultExample = "{at: 8s, kill: leader}"

// faultFields are the fields of a fault.
var faultFields = []string{"at*", "kill", "stop", "restart", "pause", "suspend", "partition", "heal", "slow", "refuse", "join", "move", "clock", "decide", "resize", "override", "reset", "for", "by"}

// kinds are the kinds of faults, by the field that selects one, with the fields that may accompany
// it.
var kinds = []kind{
	{sim.Kill, []string{"for"}},
	{sim.Stop, []string{"for"}},
	{sim.Restart, nil},
	{sim.Pause, []string{"for"}},
	{sim.Suspend, []string{"for"}},
	{sim.Partition, []string{"for", "heal"}},
	{sim.Heal, nil},
	{sim.Slow, []string{"by", "for"}},
	{sim.Refuse, []string{"for"}},
	{sim.Join, nil},
	{sim.Move, nil},
	{sim.Clock, []string{"by"}},
	{sim.Switch, nil},
	{sim.Resize, nil},
	{sim.Override, nil},
	{sim.Reset, nil},
}

type kind struct {
	kind   sim.FaultKind
	beside []string
}

const kindWords = "kill, stop, restart, pause, suspend, partition, heal, slow, refuse, join, move, clock, decide, resize, override or reset"

func (p *parser) faults(v config.Value) {
	type restart struct {
		at    config.Value
		fault sim.Fault
	}
	var restarts []restart
	v.Items(MaxFaults, "["+faultExample+"]", func(v config.Value) {
		f, ok := p.fault(v)
		if !ok {
			return
		}
		if f.Kind == sim.Restart {
			restarts = append(restarts, restart{v, f})
		}
		p.Faults = append(p.Faults, f)
	})
	for _, r := range restarts {
		p.killedBefore(r.at, r.fault)
	}
}

func (p *parser) fault(v config.Value) (f sim.Fault, ok bool) {
	before := v.Faults()
	d, ok := p.part(v, faultExample, faultFields...)
	if !ok {
		return f, false
	}
	d.duration("at", &f.At, 0, p.Duration)
	if !d.choose(&f) {
		return f, false
	}
	value := d.given[string(f.Kind)]
	switch f.Kind {
	case sim.Heal:
		value.Scalar(healWant, isAllOf(healWant))
	case sim.Switch:
		p.decide(value, &f)
	case sim.Resize:
		p.resize(value, &f)
	case sim.Override:
		p.override(value, &f)
	case sim.Reset:
		value.Scalar(resetWant, isAllOf(resetWant))
		p.oneKey(value)
	case sim.Partition:
		f.Groups = p.groups(value)
		d.read("heal", func(v config.Value) { p.healed(v, &f) })
	default:
		p.target(value, &f)
	}
	d.duration("for", &f.For, time.Millisecond, MaxDuration)
	if d.has("for") && d.has("heal") {
		d.given["for"].Fault("cannot be combined with heal; choose one")
	}
	d.read("by", func(v config.Value) { p.by(v, &f) })
	if f.Kind == sim.Slow && !d.has("by") {
		d.Missing("by", "is missing; write how much each message is delayed, such as by: 50ms")
	}
	if f.Kind == sim.Clock && !d.has("by") {
		d.Missing("by", "is missing; write how far the clocks are set, such as by: 2s, or by: -2s for back")
	}
	return f, v.Faults() == before
}

// by reads a delay, or how far clocks are set, which may be back.
func (p *parser) by(v config.Value, f *sim.Fault) {
	if f.Kind != sim.Clock {
		v.Duration(&f.Delay, time.Microsecond, MaxDelay)
		return
	}
	want := fmt.Sprintf("a duration of at most %v in either direction, such as 2s or -2s", MaxSkew)
	v.Scalar(want, func(text string) error {
		d, err := time.ParseDuration(text)
		if err != nil || d == 0 || d.Abs() > MaxSkew {
			return config.Wrong(text, want)
		}
		f.Delay = d
		return nil
	})
}

// decide reads where the limit is decided from then on.
func (p *parser) decide(v config.Value, f *sim.Fault) {
	var words []string
	for _, d := range quota.Decides() {
		words = append(words, d.String())
	}
	var word string
	if !v.OneOf(&word, words...) {
		return
	}
	f.Decide = quota.Decides()[slices.Index(words, word)]
	l := p.Limit
	l.Decide = f.Decide
	if err := l.Validate(); p.counts && err != nil {
		v.Fault("does not fit the limit: %v", err)
	}
	p.oneKey(v)
}

// oneKey reports a change of the limit beside several keys.
func (p *parser) oneKey(v config.Value) {
	if p.Keys.Count > 1 {
		v.Fault("cannot be combined with several keys: nodes change them in an order that no seed determines")
	}
}

const healWant = "all: everything is healed at once"

func isAllOf(want string) func(text string) error {
	return func(text string) error {
		if text != "all" {
			return config.Wrong(text, want)
		}
		return nil
	}
}

// choose determines the kind of a fault, and reports fields of other kinds.
func (p part) choose(f *sim.Fault) bool {
	for _, k := range kinds {
		if !p.has(string(k.kind)) || k.kind == sim.Heal && p.has("partition") {
			continue
		}
		if f.Kind != "" {
			p.given[string(k.kind)].Fault("cannot be combined with %s; choose one, or write two faults", f.Kind)
			return false
		}
		f.Kind = k.kind
	}
	if f.Kind == "" {
		p.Missing("kill", "is missing; write what happens, such as kill: leader: %s", kindWords)
		return false
	}
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.kind == f.Kind })
	for _, name := range []string{"for", "by"} {
		if p.has(name) && !slices.Contains(kinds[i].beside, name) {
			p.given[name].Fault("cannot be combined with %s; remove it", f.Kind)
			return false
		}
	}
	return true
}

// target reads the leader, a node or several nodes.
func (p *parser) target(v config.Value, f *sim.Fault) {
	if v.IsList() {
		f.Nodes = p.nodes(v)
		return
	}
	leads := f.Kind != sim.Restart && f.Kind != sim.Join && f.Kind != sim.Move
	want := fmt.Sprintf("leader, a node from 1 to %d, or a list such as [1, 2]", p.Nodes)
	if !leads {
		want = fmt.Sprintf("a node from 1 to %d, or a list such as [1, 2]", p.Nodes)
	}
	if f.Kind == sim.Restart {
		want = fmt.Sprintf("a node from 1 to %d that was killed or stopped, or a list such as [1, 2]", p.Nodes)
	}
	v.Scalar(want, func(text string) error {
		if text == "leader" && leads {
			f.Leader = true
			return nil
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > p.Nodes {
			return config.Wrong(text, want)
		}
		f.Nodes = []int{n}
		return nil
	})
}

// groups reads the groups of a partition.
func (p *parser) groups(v config.Value) (groups [][]int) {
	seen := map[int]bool{}
	v.Items(p.Nodes, "[[1, 2], [3, 4, 5]]", func(v config.Value) {
		group := p.nodes(v)
		for _, n := range group {
			if seen[n] {
				v.Fault("has node %d, which is in another group already; remove one", n)
			}
			seen[n] = true
		}
		groups = append(groups, group)
	})
	if len(groups) == 1 && len(seen) == p.Nodes {
		v.Fault("has all nodes in one group, which separates no nodes; must be two groups, or one without some nodes")
	}
	return groups
}

// healed reads the end of a partition.
func (p *parser) healed(v config.Value, f *sim.Fault) {
	var at time.Duration
	if !v.Duration(&at, 0, p.Duration) {
		return
	}
	if f.For = at - f.At; f.For <= 0 {
		v.Fault("is %v, not after at, which is %v; must be later, up to the duration, %v", at, f.At, p.Duration)
	}
}

// killedBefore reports the restart of a node that was neither killed nor stopped.
func (p *parser) killedBefore(v config.Value, f sim.Fault) {
	for _, n := range f.Nodes {
		killed := slices.ContainsFunc(p.Faults, func(k sim.Fault) bool {
			return (k.Kind == sim.Kill || k.Kind == sim.Stop) && k.At <= f.At && (k.Leader || slices.Contains(k.Nodes, n))
		})
		if !killed {
			v.Fault("restarts node %d, which was not killed or stopped before %v; kill it first, or remove this", n, f.At)
			return
		}
	}
}
