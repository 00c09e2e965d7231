package quota

import "time"

// LiveError is what leaders have measured of one limit, over all its keys: what
// was asked for and admitted, and how far that was from the limit in both
// directions. Amounts are cumulative. Tiers of a limit are measured each for
// itself, and added up.
type LiveError struct {
	Attempted, Admitted Units
	// OverAdmitted counts the tokens by which keys went into debt that nobody had
	// agreed to: each time, as deep as the debt became until it was paid. What was
	// reserved (max_debt) or charged after the fact is agreed. CutOff counts the
	// same of what members admitted while they were cut off.
	OverAdmitted, CutOff Units
	// Needless and NeedlessAtMost bound the tokens that were refused although
	// the limit would have covered them on top of all that was admitted, each
	// token of it once.
	Needless, NeedlessAtMost Units
	// Worst is the deepest such debt of one key, CutOff's included, and
	// WorstBurst what part of the burst that was.
	Worst      Units
	WorstBurst float64
	// Gap is the longest time between two reports of a member for one key of which
	// the later one had something to charge.
	Gap time.Duration
}

// Add adds what another ledger or node has measured of the same limit.
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
