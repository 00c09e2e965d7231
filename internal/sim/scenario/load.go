package scenario

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/sim"
)

const loadExample = "[{from: 0s, to: 20s, rate: 3x, spread: even}]"

// loadFields are the fields of a load.
var loadFields = []string{"from", "to", "rate*", "spread", "on", "off", "clump", "cost", "refund", "charge"}

func (p *parser) loads(v config.Value) {
	v.Items(MaxLoads, loadExample, func(v config.Value) {
		if l, ok := p.load(v); ok {
			p.Loads = append(p.Loads, l)
		}
	})
}

func (p *parser) load(v config.Value) (l sim.Load, ok bool) {
	before := v.Faults()
	d, ok := p.part(v, loadExample[1:len(loadExample)-1], loadFields...)
	if !ok {
		return l, false
	}
	d.duration("from", &l.From, 0, p.Duration)
	d.read("to", func(v config.Value) {
		if v.Duration(&l.To, 0, p.Duration) && l.To <= l.From {
			v.Fault("is %v, not after from, which is %v; must be later, up to the duration, %v", l.To, l.From, p.Duration)
		}
	})
	l.Clump, l.Cost = 1, 1
	d.read("cost", func(v config.Value) { p.cost(v, &l) })
	d.read("rate", func(v config.Value) { p.rate(v, &l) })
	d.read("spread", func(v config.Value) { p.spread(v, &l.Spread) })
	d.duration("on", &l.On, time.Millisecond, MaxDuration)
	d.duration("off", &l.Off, time.Millisecond, MaxDuration)
	d.together("on", "off", "on: 200ms", "off: 300ms")
	d.read("clump", func(v config.Value) {
		n := int64(1)
		v.Whole(&n, 1, MaxClump)
		l.Clump = int(n)
		if len(p.sweep.clumps) > 0 {
			v.Fault("cannot be combined with sweep.clump, which applies to all loads; remove one")
		}
	})
	d.number("refund", &l.Refund, 0, 1)
	d.read("charge", func(v config.Value) { v.Bool(&l.Charge) })
	for _, name := range []string{"refund", "charge"} {
		d.read(name, func(v config.Value) { p.settles(v, &l) })
	}
	if l.Charge && l.Refund > 0 {
		d.given["refund"].Fault("cannot be combined with charge; remove one")
	}
	return l, v.Faults() == before
}

// settles reports a refund or a charge that nobody can play.
func (p *parser) settles(v config.Value, l *sim.Load) {
	switch {
	case l.Look:
		v.Fault("cannot be combined with cost: 0; remove it")
	case p.Limit.Kind == quota.Concurrency:
		v.Fault("cannot be combined with in_flight, whose tokens are released; remove it")
	}
}

// together reports a field that is meaningless without another one.
func (p part) together(a, b, writeA, writeB string) {
	if p.has(a) && !p.has(b) {
		p.Missing(b, "is missing beside %s; write %s", a, writeB)
	}
	if p.has(b) && !p.has(a) {
		p.Missing(a, "is missing beside %s; write %s", b, writeA)
	}
}

// cost reads the cost of a request; with 0 it only looks. A cost above what the limit can ever hold would be refused for
// good.
func (p *parser) cost(v config.Value, l *sim.Load) {
	most := quota.MaxTokens
	if p.counts {
		most = max(1, p.Limit.MostCost())
	}
	if v.Whole(&l.Cost, 0, most) && l.Cost == 0 {
		l.Look, l.Cost = true, 1
	}
}

// factorForm matches a multiple of the limit.
var factorForm = regexp.MustCompile(`^([0-9]{1,9}(?:\.[0-9]{1,9})?)x$`)

// rate reads a multiple of the limit, or requests per period. A multiple counts tokens: expensive
// requests are accordingly fewer.
func (p *parser) rate(v config.Value, l *sim.Load) {
	const want = "a multiple of the limit, such as 3x, or requests per period, such as 500/s"
	v.Scalar(want, func(text string) error {
		if m := factorForm.FindStringSubmatch(text); m != nil {
			n, err := strconv.ParseFloat(m[1], 64)
			if err != nil {
				return config.Wrong(text, want)
			}
			return p.multiple(text, n, l)
		}
		r, err := quota.ParseRate(text)
		if err != nil {
			return config.Wrong(text, want)
		}
		l.Rate = float64(r.Tokens) / r.Per.Seconds()
		return bounded(text, l.Rate)
	})
}

func (p *parser) multiple(text string, n float64, l *sim.Load) error {
	if !p.counts {
		return nil // the limit's fault is reported
	}
	per := perSecond(&p.Limit, p.Hold)
	if per == 0 {
		return fmt.Errorf("is %s of a limit that lets nothing pass; must be requests per period, such as 500/s", text)
	}
	l.Rate = n * per / float64(l.Cost)
	return bounded(text, l.Rate)
}

func bounded(text string, rate float64) error {
	if rate > MaxRate {
		return fmt.Errorf("is %s, %.0f requests/s; must be at most %d requests/s", text, rate, MaxRate)
	}
	return nil
}

const spreadExample = "{skew: 0.9}, {moving: 500ms} or {nodes: [1, 2]}"

// spread reads "even" or a map.
func (p *parser) spread(v config.Value, s *sim.Spread) {
	if !v.IsMap() {
		const want = "even, or a map such as " + spreadExample
		v.Scalar(want, func(text string) error {
			if text != "even" {
				return config.Wrong(text, want)
			}
			return nil
		})
		return
	}
	d, ok := p.part(v, spreadExample, "skew", "moving", "nodes")
	if ok && len(d.given) != 1 {
		v.Fault("has %d fields; must be one of %s", len(d.given), spreadExample)
		return
	}
	d.number("skew", &s.Skew, 1e-6, 1)
	d.duration("moving", &s.Moving, time.Millisecond, MaxDuration)
	d.read("nodes", func(v config.Value) { s.Nodes = p.nodes(v) })
}

// nodes reads a list of distinct node numbers.
func (p *parser) nodes(v config.Value) (list []int) {
	v.Items(p.Nodes, "[1, 2]", func(v config.Value) {
		if n, ok := p.node(v); ok && slices.Contains(list, n) {
			v.Fault("is %d, a duplicate; remove one", n)
		} else if ok {
			list = append(list, n)
		}
	})
	return list
}

func (p *parser) node(v config.Value) (int, bool) {
	var n int64
	ok := v.Whole(&n, 1, int64(p.Nodes))
	return int(n), ok
}
