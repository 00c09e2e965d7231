package grpcapi

import (
	"context"
	"sync"
	"time"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/internal/quota"
)

// batches is a pool of checkBatches, for their slices.
var batches = sync.Pool{New: func() any { return new(checkBatch) }}

func (s *quotaServer) serveBatch(ctx context.Context, dec func(any) error) (any, error) {
	m := batches.Get().(*checkBatch)
	defer m.free()
	if err := dec(m); err != nil {
		return nil, err
	}
	start := time.Now()
	var err error
	if s.Guard != nil {
		err = s.authorizeCheck(ctx, methodBatch, m.namespaces)
	}
	if err == nil {
		err = api.CheckBatchSize(m.count)
	}
	var out batchAnswer
	if err == nil {
		out.out = m.decide(s.QuotaService)
	}
	return answered(ctx, s, out, methodBatch, start, err)
}

// free puts m back into the pool without references to the message. The answers have their own
// buffer.
func (m *checkBatch) free() {
	m.plain.forget()
	m.checks, m.faults, m.held = nil, nil, heldChecks{}
	batches.Put(m)
}

// forget drops all references to the message, of which every string here is a substring.
func (p *plainBatch) forget() {
	clear(p.spends)
	clear(p.runs)
	p.spends, p.runs = p.spends[:0], p.runs[:0]
}

// decide decides the checks and returns their encoded answers.
func (m *checkBatch) decide(s *api.QuotaService) *[]byte {
	out := answers.Get(m.count * answerRoom)
	b := (*out)[:0]
	for i := range m.checks {
		if err := m.faults[i]; err != nil {
			b = appendResult(b, nil, err)
			continue
		}
		b = appendDecided(b, s, &m.checks[i])
	}
	spends := m.plain.spends
	for i := range m.plain.runs {
		r := &m.plain.runs[i]
		b = m.held.appendRun(b, s, r.name, spends[:r.count])
		spends = spends[r.count:]
	}
	m.held.count()
	*out = b
	return out
}

// appendDecided decides one check and appends its result.
func appendDecided(b []byte, s *api.QuotaService, c *api.Check) []byte {
	d, r, err := s.Decide(c)
	if err != nil {
		return appendResult(b, nil, err)
	}
	return appendDecision(b, r, &d)
}

// heldAtOnce is how many checks of a batch are decided in one call of the node.
const heldAtOnce = 32

// heldChecks decides the checks of a batch from the tokens that the node holds.
type heldChecks struct {
	decisions [heldAtOnce]quota.Decision
	rule      *api.Prepared // of the last limit
	limit     *quota.Limit
	passed    uint64 // admissions of that limit that are not counted yet
}

// appendRun decides checks of one limit and appends their results. It decides a check that the node
// does not hold enough for on its own.
func (h *heldChecks) appendRun(b []byte, s *api.QuotaService, n quota.LimitName, spends []quota.Spend) []byte {
	first := api.Check{Key: quota.Key{LimitName: n}}
	known := first.ValidateNames() == nil
	for len(spends) > 0 {
		some := spends[:min(len(spends), heldAtOnce)]
		spends = spends[len(some):]
		decisions := h.decisions[:len(some)]
		if known {
			s.CheckHeld(n, some, decisions)
		}
		for i := range some {
			d := &decisions[i]
			if !known || d.Limit == nil {
				one := api.Check{Key: quota.Key{LimitName: n, Key: some[i].Key}, Cost: some[i].Cost, Costs: true, Named: known}
				b = appendDecided(b, s, &one)
				continue
			}
			if h.limit != d.Limit {
				h.count()
				h.limit, h.rule = d.Limit, s.Prepared(d.Limit)
			}
			b = appendDecision(b, h.rule, d)
			if h.passed++; d.Near || d.Shadow {
				h.passed--
				h.rule.Counts.Add(d, 1)
			}
		}
	}
	return b
}

// count counts the admissions of the last limit.
func (h *heldChecks) count() {
	if h.passed > 0 {
		h.rule.Counts.Add(&quota.Decision{Allowed: true, Why: quota.WhyHeld}, h.passed)
		h.passed = 0
	}
}
