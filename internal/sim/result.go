package sim

import (
	"math"
	"time"
)

// Result compares a run with the ideal. Amounts are tokens.
type Result struct {
	Attempted, Admitted, Ideal int64
	// Over and Under are what was decided otherwise than by the ideal: admitted,
	// and refused.
	Over, Under int64
	// WrongRefusals counts the decisions among Under that were wrong by what the
	// cluster had really admitted too: its level still covered the cost.
	WrongRefusals int64
	// Excess is the most that was admitted beyond burst + rate x time over any
	// stretch of the run; of a windowed limit, beyond the count of any window of
	// any tier. Of several keys the worst.
	Excess float64
	// ExcessBursts is Excess as a multiple of the burst, and WorstWindow that part
	// of Excess which is beyond the count of a window.
	ExcessBursts, WorstWindow float64
	// Waits is the sum of what callers were told to wait, and IdealWaits what the
	// ideal would have told them.
	Waits, IdealWaits time.Duration
	// Asked counts questions to the leader, and Alone those that it did not answer in
	// time: the node decided alone.
	Asked, Alone int64
	// Reports counts those that members sent, and Bytes what they and their answers take on
	// the wire in the packed form, without frames. Of a rival it is an estimate.
	Reports, Bytes int64
	// Entries counts the keys in those reports, and ClientReports the reports that
	// clients sent to their nodes.
	Entries, ClientReports int64
	// Backlog is for how long the last report of the run waited for its leader, where
	// leaders need time.
	Backlog time.Duration
	// Lost is what the members admitted and no leader has booked at the end,
	// less what was booked twice. Only runs whose load ends a few seconds
	// before them, and without a killed leader, know it exactly.
	Lost int64
	// Learned is how long it took from the death of the last killed leader
	// until its successor had learned.
	Learned time.Duration
	// Outage counts what was asked for and what was admitted from a leader's
	// death until its successor had learned.
	OutageAttempted, OutageAdmitted int64

	// PerNode is what each node admitted.
	PerNode []int64
	// Series is the run in steps of Each: a second, or as many as keep it to
	// MaxSeries.
	Series []Second
	Each   time.Duration
	// NodeSeconds is nodes x duration, and Steps how many events were simulated.
	NodeSeconds float64
	Steps       int64
	// Violations are the first ten invariants that did not hold.
	Violations []string
}

// Second is a stretch of a run. Amounts are tokens.
type Second struct{ Attempted, Admitted, Ideal int64 }

// MaxSeries bounds Result.Series.
const MaxSeries = 3600

// Error is (admitted - ideal) / ideal.
func (r Result) Error() float64 { return float64(r.Admitted-r.Ideal) / math.Max(1, float64(r.Ideal)) }
