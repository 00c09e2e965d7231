package sim

import (
	"math"
	"time"
)

// Result compares a run with the ideal. Amounts are tokens.
type Result struct {
	Attempted, Admitted, Ideal int64
	// Over and Under are decisions that differ from the ideal's: admitted and refused.
	Over, Under int64
	// WrongRefusals counts those decisions among Under for which the cluster's real level covered
	// the cost, after what it had admitted.
	WrongRefusals int64
	// Excess is the most that was admitted beyond burst + rate x time over any interval of the run;
	// for windowed limits, beyond the count of any window of any tier. For several keys it is that
	// of the worst.
	Excess float64
	// ExcessBursts is Excess divided by the burst; WorstWindow is the excess beyond the count of a
	// window.
	ExcessBursts, WorstWindow float64
	// Waits is the sum of the waits of callers, and IdealWaits that of the ideal.
	Waits, IdealWaits time.Duration
	// Asked counts decide requests, and Alone those without an answer in time, which the node
	// decided alone.
	Asked, Alone int64
	// Reports counts the reports of members, and Bytes their size and that of the answers on the
	// wire in the packed form, without frames. For a baseline it is an estimate.
	Reports, Bytes int64
	// Entries counts the keys in those reports, and ClientReports the reports that
	// clients sent to their nodes.
	Entries, ClientReports int64
	// Backlog is how long the last report of the run waited for its leader, if leaders need time.
	Backlog time.Duration
	// Refunded counts the tokens that callers gave back, and Charged the use that nodes booked after the fact.
	Refunded, Charged int64
	// Lost counts the tokens that members admitted or charged and no leader has booked at the end, less those booked
	// twice. It is exact only if the load ends a few seconds before the run and no leader was
	// killed.
	Lost int64
	// Learned is the time from the death of the last killed leader until its successor had learned.
	Learned time.Duration
	// OutageAttempted and OutageAdmitted count what was attempted and admitted from a leader's
	// death until its successor had learned.
	OutageAttempted, OutageAdmitted int64

	// PerNode is what each node admitted.
	PerNode []int64
	// Series is the run in steps of Each: a second, or more to stay within MaxSeries.
	Series []Second
	Each   time.Duration
	// NodeSeconds is nodes x duration, and Steps how many events were simulated.
	NodeSeconds float64
	Steps       int64
	// Violations are the first ten invariants that did not hold.
	Violations []string
}

// Second is one step of a run, in tokens.
type Second struct{ Attempted, Admitted, Ideal int64 }

// MaxSeries bounds Result.Series.
const MaxSeries = 3600

// Error returns (admitted - ideal) / ideal.
func (r Result) Error() float64 { return float64(r.Admitted-r.Ideal) / math.Max(1, float64(r.Ideal)) }
