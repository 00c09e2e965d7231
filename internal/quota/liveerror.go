package quota

import "time"

// LiveError is the measured error of one limit over all its keys: how far admissions were from the
// limit, in both directions. Amounts are cumulative. A limit's tiers are measured separately and
// summed.
type LiveError struct {
	Attempted, Admitted Units
	// OverAdmitted sums the debt of keys beyond what the limit allows, each time at its deepest. Reservations
	// (max_debt) and charges after the fact are allowed debt. CutOff is the same for admissions of members that were
	// cut off from the leader.
	OverAdmitted, CutOff Units
	// Needless and NeedlessAtMost bound the tokens that were refused although the limit covered
	// them on top of everything admitted. Each token counts once.
	Needless, NeedlessAtMost Units
	// Worst is the deepest such debt of one key, CutOff included; WorstBurst is the same as a part
	// of the burst.
	Worst      Units
	WorstBurst float64
	// Gap is the longest time between two reports of one member for one key of which the later one charged tokens.
	Gap time.Duration
}

// Add adds the measurements of another ledger or node for the same limit.
func (e *LiveError) Add(o *LiveError) {
	e.Attempted = e.Attempted.Plus(o.Attempted)
	e.Admitted = e.Admitted.Plus(o.Admitted)
	e.OverAdmitted = e.OverAdmitted.Plus(o.OverAdmitted)
	e.CutOff = e.CutOff.Plus(o.CutOff)
	e.Needless = e.Needless.Plus(o.Needless)
	e.NeedlessAtMost = e.NeedlessAtMost.Plus(o.NeedlessAtMost)
	e.Worst = max(e.Worst, o.Worst)
	e.WorstBurst = max(e.WorstBurst, o.WorstBurst)
	e.Gap = max(e.Gap, o.Gap)
}
