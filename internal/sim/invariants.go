package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// maxViolations bounds Result.Violations: the first ones matter most.
const maxViolations = 10

// prove checks the invariants after a step of a leader, if the scenario asks for it: for the keys
// of a report, for the given keys, or for all.
func (r *run) prove(s *leadership, rep *quota.Report, keys ...quota.Key) {
	if !r.Check || s.ledger == nil || len(r.res.Violations) >= maxViolations {
		return
	}
	if rep != nil {
		for i := range rep.Entries {
			keys = append(keys, rep.Entries[i].Key)
		}
		if len(keys) == 0 {
			return
		}
	}
	if err := s.ledger.Check(s.node.clock(), keys...); err != nil {
		r.violated(s, err.Error())
	}
	if rep == nil && len(keys) == 0 {
		r.proveCounts(s)
	}
	for _, k := range keys {
		r.proveBacked(s, k)
	}
}

// proveBacked checks that under hard everything that members hold of a key is covered: if they
// spent it now, the envelope would cover it, which knows at once what leaders admit. State that died with a process is exempt: see leader/doc.go.
func (r *run) proveBacked(s *leadership, k quota.Key) {
	if r.Limit.Ceiling != quota.Hard || r.Limit.Kind != quota.TokenBucket || len(r.tiers) > 1 || r.Limit.MaxDebt > 0 {
		return
	}
	if len(r.terms) > 1 && !r.Strict || k.LimitName != r.Limit.LimitName { // a parent: run.above judges what it admits
		return
	}
	var held quota.Units
	for _, n := range r.nodes {
		if !n.dead {
			held += n.agg.Held(k)
		}
	}
	if held <= quota.Token { // the common case of small limits
		return
	}
	t := r.tally(k.Key)
	if t.unsure {
		return
	}
	e := &t.backing
	e.covers(r.now, 0)
	if level := e.meters[0].Level(); held > level+r.slack+r.fast() {
		r.violated(s, fmt.Sprintf("%v: members hold %d units, and %d can be spent", k, held, level))
	}
}

// fast is what the limit yields in the time that the fastest clock has gained.
func (r *run) fast() quota.Units {
	most := quota.Time(0)
	for _, n := range r.nodes {
		most = max(most, n.gained(r.now-r.Start)+max(0, n.follows(r.now)))
	}
	return quota.Units(float64(r.rate) * time.Duration(most).Seconds())
}

// proveCounts checks that the first leader has not booked what no member has admitted. A later one
// may charge again what its predecessor did not confirm. A decide request may be booked as long as
// its caller waits, and for good if its answer is lost and nobody could abandon it.
func (r *run) proveCounts(s *leadership) {
	if len(r.terms) > 1 || r.presumesUse() {
		return
	}
	if booked, admitted := r.inBooks(), quota.FromTokens(r.res.Admitted+r.res.Charged); booked > admitted+r.asking {
		r.violated(s, fmt.Sprintf("booked %d units, and %d were admitted, %d asked", booked, admitted, r.asking))
	}
}

func (r *run) violated(s *leadership, what string) {
	r.res.Violations = append(r.res.Violations, fmt.Sprintf("%v, term %d: %s", r.since(), s.term, what))
}

// presumesUse reports whether nodes may book more than clients use: under hard what these may have used, until they report;
// and of a report that a dead node has passed on, a second time.
func (r *run) presumesUse() bool {
	return r.Clients > 0 && (r.Limit.Ceiling == quota.Hard || slices.ContainsFunc(r.Faults, func(f Fault) bool { return f.Kind == Kill || f.Kind == Stop }))
}
