package client

import (
	"context"
	"sync"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
)

// pooled is a reusable call with its requests.
type pooled struct {
	aggregator.Call
	reqs   []quota.Request
	out    []quota.Decision
	waited bool // has waited for a grant; counted once
}

var calls = sync.Pool{New: func() any { return new(pooled) }}

// begin removes all checks; add adds one.
func (p *pooled) begin() { p.reqs, p.out, p.waited = p.reqs[:0], p.out[:0], false }

func (p *pooled) add(k quota.Key, cost int64) {
	p.reqs = append(p.reqs, quota.Request{Key: k, Cost: cost, MaxWait: quota.LimitsWait})
	p.out = append(p.out, quota.Decision{})
}

func (p *pooled) free() {
	p.Reset(nil, nil)
	clear(p.reqs)
	clear(p.out)
	calls.Put(p)
}

// needsNode reports that a node has to decide.
type needsNode bool

// one decides one check, unless a node has to.
func (m *member) one(ctx context.Context, r *rules, k quota.Key, cost int64, t *chargeTime) (quota.Decision, needsNode) {
	agg := m.agg.Load()
	if r.needsNode(k.LimitName) {
		return quota.Decision{}, true
	}
	if t == nil {
		d, need, simple := agg.TrySimple(m.clock.now, k.LimitName, k.Key, cost)
		m.wakeIfUrgent(agg)
		if simple && need == aggregator.Nothing {
			return d, false
		}
	}
	p := calls.Get().(*pooled)
	defer p.free()
	p.begin()
	p.add(k, cost)
	ok, asks := m.decide(ctx, agg, p)
	if t != nil && ok && !bool(asks) {
		t.windows = p.Taken(t.at)
	}
	return p.out[0], asks
}

// wakeIfUrgent wakes member.run if a key has asked for a report.
func (m *member) wakeIfUrgent(agg *aggregator.Aggregator) {
	if agg.Urgent() {
		m.wakeRun()
	}
}

// decide decides a call. It waits for a grant if that would decide.
func (m *member) decide(ctx context.Context, agg *aggregator.Aggregator, p *pooled) (ok bool, asks needsNode) {
	clear(p.out)
	p.Reset(p.reqs, p.out)
	ok = agg.Decide(m.clock.now, &p.Call)
	m.wakeIfUrgent(agg)
	if p.Need == aggregator.Nothing {
		return ok, false
	}
	deadline := m.clock.now().Add(m.opts.grantWait)
	for p.Need == aggregator.Grant {
		left := deadline.Sub(m.clock.now())
		if m.attached.Load() == nil {
			left = 0 // no grant will come
		}
		ok = m.wait.Await(ctx, agg, m.clock.now, &p.Call, left, func() {
			if !p.waited {
				p.waited = true
				m.stats.grantWaits.Add(1)
			}
			m.wakeRun()
		})
	}
	return ok, p.Need == aggregator.Leader
}

// alone decides a call of a node that does not answer, by the when_cut_off of each limit.
func (m *member) alone(agg *aggregator.Aggregator, p *pooled) bool {
	clear(p.out)
	p.Reset(p.reqs, p.out)
	p.Alone, p.Final = true, true
	ok := agg.Decide(m.clock.now, &p.Call)
	m.wakeIfUrgent(agg)
	return ok
}
