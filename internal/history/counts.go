package history

import "github.com/quorate/quorate/internal/quota"

// Counts holds what happened under one limit during some time, over all keys, in millionths of a token.
type Counts struct {
	Attempted quota.Units // requested
	Admitted  quota.Units
	Over      quota.Units // admitted beyond the limit (quota.LiveError.OverAdmitted and CutOff)
	Needless  quota.Units // refused although there was room: lower bound (quota.LiveError.Needless)
	// NeedlessAtMost is the upper bound of Needless.
	NeedlessAtMost quota.Units
}

// Add adds o to c. Sums saturate.
func (c *Counts) Add(o *Counts) {
	c.Attempted = c.Attempted.Plus(o.Attempted)
	c.Admitted = c.Admitted.Plus(o.Admitted)
	c.Over = c.Over.Plus(o.Over)
	c.Needless = c.Needless.Plus(o.Needless)
	c.NeedlessAtMost = c.NeedlessAtMost.Plus(o.NeedlessAtMost)
}

// Refused returns what was requested and not admitted.
func (c *Counts) Refused() quota.Units { return max(0, c.Attempted-c.Admitted) }

// Vector holds the counts of each second of a slot.
type Vector [SlotSeconds]Counts

// Add adds o to v, second by second.
func (v *Vector) Add(o *Vector) {
	for i := range v {
		v[i].Add(&o[i])
	}
}

// Sum returns the counts of the whole slot.
func (v *Vector) Sum() Counts {
	var out Counts
	for i := range v {
		out.Add(&v[i])
	}
	return out
}
