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

// decide decides the checks and returns their encoded answers: first those that the node holds enough
// for, then all others together.
func (m *checkBatch) decide(s *api.QuotaService) *[]byte {
	out := answers.Get(m.count * answerRoom)
	b := (*out)[:0]
	for i := range m.checks {
		if err := m.faults[i]; err != nil {
			b = appendResult(b, nil, err)
			continue
		}
		m.held.later(b, m.checks[i])
	}
	spends := m.plain.spends
	for i := range m.plain.runs {
		r := &m.plain.runs[i]
		b = m.held.appendRun(b, s, r.name, spends[:r.count])
		spends = spends[r.count:]
	}
	m.held.count()
	*out = b
	if len(m.held.rest) > 0 {
		out = m.held.withRest(out, s)
	}
	return out
}

// heldAtOnce is how many checks of a batch are decided in one call of the node.
const heldAtOnce = 32

// heldChecks decides the checks of a batch from the tokens that the node holds.
type heldChecks struct {
	decisions [heldAtOnce]quota.Decision
	rule      *api.Prepared // of the last limit
	limit     *quota.Limit
	passed    uint64 // admissions of that limit that are not counted yet

	rest []api.Check // checks that the node holds too little for
	at   []int       // the place of each one's answer in the answers to the others
}

// later adds a check to those that are decided after all held ones. Its answer belongs to the end of b.
func (h *heldChecks) later(b []byte, c api.Check) {
	h.rest, h.at = append(h.rest, c), append(h.at, len(b))
}

// withRest decides the rest, and returns the encoded answers to all checks. held has those of the others.
func (h *heldChecks) withRest(held *[]byte, s *api.QuotaService) *[]byte {
	defer answers.Put(held)
	out := answers.Get(len(*held) + len(h.rest)*answerRoom)
	b, done := (*out)[:0], 0
	for i, d := range s.DecideAll(h.rest) {
		b = append(b, (*held)[done:h.at[i]]...)
		done = h.at[i]
		if d.Err != nil {
			b = appendResult(b, nil, d.Err)
		} else {
			b = appendDecision(b, d.Rule, &d.Decision)
		}
	}
	b = append(b, (*held)[done:]...)
	*out = b
	return out
}

// appendRun decides those checks of one limit that the node holds enough for, and appends their results.
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
				h.later(b, api.Check{Key: quota.Key{LimitName: n, Key: some[i].Key}, Cost: some[i].Cost, Costs: true, Named: known})
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
