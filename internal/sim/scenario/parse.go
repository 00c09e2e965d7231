package scenario

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/sim"
)

const startWith = "seed: 1"

// Parse parses a scenario file. Its error is a *config.FileError with all errors; source is the
// file's name in it.
func Parse(source string, data []byte) ([]*Scenario, error) {
	var all []*Scenario
	index := -1
	err := config.ReadDocuments(source, data, startWith, MaxDocuments, func(v config.Value) {
		index++
		s := &Scenario{Source: source, Line: v.Line(), Index: index}
		p := &parser{Scenario: s}
		p.document(v)
		if n := len(all) + p.sweep.count(); n > MaxDocuments {
			v.Fault("makes %d scenarios of the file, with what it sweeps; must be at most %d", n, MaxDocuments)
			return
		}
		all = append(all, p.sweep.all(s)...)
	})
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		s.Of = len(all)
	}
	return all, nil
}

// parser reads one document. If a field is missing or invalid, fields that depend on it are read
// with a value that allows everything.
type parser struct {
	*Scenario
	counts bool // the limit is present and valid
	sweep  sweep
}

// part is a map in the file.
type part struct {
	config.Value
	given config.Given
}

// part reads the names of a map. Names that end with * are required.
func (p *parser) part(v config.Value, example string, names ...string) (part, bool) {
	fields := make([]config.Field, len(names))
	for i, name := range names {
		name, must := strings.CutSuffix(name, "*")
		fields[i] = config.Field{Name: name, Read: func(config.Value) {}}
		if must {
			fields[i].Must = say[name]
		}
	}
	given, ok := v.Fields(example, fields)
	return part{v, given}, ok
}

// say is an example of each required field, for the error when it is missing.
var say = map[string]string{
	"duration": "duration: 20s",
	"nodes":    "nodes: 10",
	"limit":    "limit: {rate: 1000/s, burst: 1000}",
	"load":     "load: [{rate: 3x}]",
	"rate":     "rate: 3x, or rate: 500/s",
	"at":       "at: 8s",
	"count":    "count: 1000",
}

// read calls f with a field if it is present.
func (p part) read(name string, f func(config.Value)) {
	if v, ok := p.given[name]; ok {
		f(v)
	}
}

func (p part) has(name string) bool { _, ok := p.given[name]; return ok }

func (p part) duration(name string, to *time.Duration, low, high time.Duration) {
	p.read(name, func(v config.Value) { v.Duration(to, low, high) })
}

func (p part) number(name string, to *float64, low, high float64) {
	p.read(name, func(v config.Value) { v.Number(to, low, high) })
}

// scenarioFields are the fields of a document.
var scenarioFields = []string{
	"name", "description", "seed", "seeds", "algorithms", "duration*", "nodes", "clients", "breaks", "sweep", "sync", "network", "keys", "entries", "service", "limit*",
	"load*", "faults", "hop", "hold", "election", "skew", "drift", "near", "expect", "target",
}

const documentExample = "{duration: 20s, nodes: 10, limit: {rate: 1000/s, burst: 1000}, load: [{rate: 3x}]}"

func (p *parser) document(v config.Value) {
	d, ok := p.part(v, documentExample, scenarioFields...)
	if !ok {
		return
	}
	p.names(d)
	p.seeds(d)
	p.sweeps(d)
	p.cluster(d)
	p.limit(d)
	d.read("load", p.loads)
	d.read("faults", p.faults)
	d.read("algorithms", p.algorithms) // which of them can play depends on the rest
	if p.Algorithms == nil {
		p.Algorithms = []sim.Algorithm{sim.Quorate}
	}
	d.read("expect", func(v config.Value) { p.Expect = p.bounds(v) })
	d.read("target", func(v config.Value) { p.Target = p.bounds(v) })
	if n := p.Requests(); n > MaxRequests {
		d.given["load"].Fault("asks for about %.3g requests in all; must be at most %.0f: lower the rates or the duration", n, float64(MaxRequests))
	}
}

// names reads the name and the description. The default name is that of the file.
func (p *parser) names(d part) {
	d.read("name", func(v config.Value) {
		want := fmt.Sprintf("1 to %d of the characters a-z A-Z 0-9 . _ -", quota.MaxNameLen)
		v.Scalar(want, func(text string) error {
			if quota.CheckName("", text) != nil {
				return config.Wrong(text, want)
			}
			p.Name = text
			return nil
		})
	})
	d.read("description", func(v config.Value) {
		want := fmt.Sprintf("a text of at most %d bytes", MaxText)
		v.Scalar(want, func(text string) error {
			if len(text) > MaxText {
				return config.Wrong(text, want)
			}
			p.Description = strings.TrimSpace(text)
			return nil
		})
	})
	if p.Name == "" {
		p.Name = strings.TrimSuffix(filepath.Base(p.Source), filepath.Ext(p.Source))
		if p.Index > 0 {
			p.Name += fmt.Sprintf("-%d", p.Index+1)
		}
	}
}

// seeds reads one seed, a number of seeds from there on, or a list.
func (p *parser) seeds(d part) {
	first, count := int64(1), int64(1)
	d.read("seed", func(v config.Value) { v.Whole(&first, 0, math.MaxInt64-MaxSeeds) })
	d.read("seeds", func(v config.Value) {
		switch {
		case !v.IsList():
			v.Whole(&count, 1, MaxSeeds)
		case d.has("seed"):
			v.Fault("is a list, and seed is there too; remove one, or write how many, such as seeds: 5")
		default:
			v.Items(MaxSeeds, "[1, 2, 3]", func(v config.Value) {
				var seed int64
				if v.Whole(&seed, 0, math.MaxInt64) {
					p.Seeds = append(p.Seeds, uint64(seed))
				}
			})
		}
	})
	for i := range count {
		if p.Seeds == nil || i > 0 {
			p.Seeds = append(p.Seeds, uint64(first+i))
		}
	}
}

// algorithms reads one word, several, or "all" for those that can play the limit.
func (p *parser) algorithms(v config.Value) {
	words := []string{"all"}
	for _, a := range sim.Algorithms() {
		words = append(words, string(a))
	}
	if !v.IsList() {
		var word string
		if v.OneOf(&word, words...) && word != "all" {
			p.play(v, sim.Algorithm(word))
		}
		if word == "all" {
			p.Algorithms = p.Playable()
		}
		return
	}
	v.Items(len(words)-1, "[quorate, count-sync]", func(v config.Value) {
		var word string
		if !v.OneOf(&word, words[1:]...) {
			return
		}
		if slices.Contains(p.Algorithms, sim.Algorithm(word)) {
			v.Fault("is %s, a duplicate; remove one", word)
		}
		p.play(v, sim.Algorithm(word))
	})
}

// play adds an algorithm named in the file.
func (p *parser) play(v config.Value, a sim.Algorithm) {
	if err := p.Fits(a); err != nil {
		v.Fault("is %v", err)
	}
	p.Algorithms = append(p.Algorithms, a)
}

// cluster reads the nodes, the network and the clocks.
func (p *parser) cluster(d part) {
	p.Duration, p.Sync, p.Hop, p.Election = MaxDuration, DefaultSync, DefaultHop, DefaultElection
	nodes := p.sweep.least()
	d.duration("duration", &p.Duration, time.Millisecond, MaxDuration)
	d.read("nodes", func(v config.Value) { v.Whole(&nodes, 1, MaxNodes) })
	p.Nodes = int(nodes)
	clients := int64(0)
	d.read("clients", func(v config.Value) { v.Whole(&clients, 0, MaxClients) })
	p.Clients = int(clients)
	d.number("breaks", &p.Breaks, 0, 10)
	if d.has("breaks") && p.Clients == 0 {
		d.given["breaks"].Fault("requires clients, whose streams break; add clients, or remove it")
	}
	d.duration("sync", &p.Sync, MinSync, MaxSync)
	p.Network.Delay = DefaultDelay
	d.read("network", p.network)
	p.Keys.Count = 1
	d.read("keys", p.keys)
	entries := int64(0)
	d.read("entries", func(v config.Value) { v.Whole(&entries, 1, MaxEntries) })
	p.Entries = int(entries)
	d.duration("service", &p.Service, time.Microsecond, MaxService)
	d.duration("hop", &p.Hop, 0, MaxHop)
	d.duration("election", &p.Election, time.Millisecond, MaxElection)
	d.duration("skew", &p.Skew, 0, MaxSkew)
	d.number("drift", &p.Drift, 0, MaxDrift)
	p.Near = true
	d.read("near", func(v config.Value) { v.Bool(&p.Near) })
}

const networkExample = "{delay: 1ms, jitter: 0.2ms, loss: 0.05}"

// networkFields are the fields of a network.
var networkFields = []string{"delay", "jitter", "loss", "duplicate", "reorder"}

func (p *parser) network(v config.Value) {
	d, _ := p.part(v, networkExample, networkFields...)
	d.duration("delay", &p.Network.Delay, 0, MaxDelay)
	d.duration("jitter", &p.Network.Jitter, 0, MaxDelay)
	d.number("loss", &p.Network.Loss, 0, 1)
	d.number("duplicate", &p.Network.Duplicate, 0, 1)
	d.number("reorder", &p.Network.Reorder, 0, 1)
}

// keys reads a count, or a map with a count and the distribution.
func (p *parser) keys(v config.Value) {
	count := int64(1)
	if v.IsMap() {
		d, _ := p.part(v, "{count: 1000, zipf: 1.1}", "count*", "zipf")
		d.read("count", func(v config.Value) { v.Whole(&count, 1, MaxKeys) })
		d.number("zipf", &p.Keys.Zipf, 0, MaxZipf)
	} else {
		v.Whole(&count, 1, MaxKeys)
	}
	p.Keys.Count = int(count)
}

// limitName is the name of a scenario's limit in decisions.
var limitName = quota.LimitName{Namespace: "sim", Limit: "limit"}

func (p *parser) limit(d part) {
	d.read("hold", func(v config.Value) { v.Duration(&p.Hold, time.Millisecond, MaxHold) })
	d.read("limit", func(v config.Value) {
		l, ok := v.Limit(limitName)
		switch {
		case !ok:
			return
		case l.Class != quota.Counted:
			v.Fault("counts nothing; must be a limit with rate, limit, tiers or in_flight")
			return
		case l.Kind == quota.Concurrency && p.Hold == 0 && !d.has("hold"):
			d.Missing("hold", "is missing beside in_flight; write how long each is held, such as hold: 100ms")
			return
		case l.Kind != quota.Concurrency && d.has("hold"):
			d.given["hold"].Fault("cannot be combined with a limit that counts no in_flight; remove it")
		}
		p.Limit, p.counts = l, true
	})
}
