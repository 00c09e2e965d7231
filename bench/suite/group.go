package suite

import (
	"context"
	"time"
)

// Measure is a column of a table.
type Measure struct {
	Name string // as in Sample, such as "CPU"
	Unit string // such as "ns"; "" is a count
	More bool   // higher is better
}

// Sample holds the results of a subject in one round, by the measure's name.
type Sample map[string]float64

// Runner is a subject that is ready to run.
type Runner interface {
	// Round works for about the given time and returns its measurements. It fails if the work had
	// the wrong result, such as a refusal in a group of admissions.
	Round(ctx context.Context, d time.Duration) (Sample, error)
	// Close stops the subject and everything that was started for it.
	Close() error
}

// Subject is one row of a table.
type Subject struct {
	Name    string
	Ours    bool // Quorate's
	Start   func(ctx context.Context) (Runner, error)
	Targets []Target
}

// Target is a bound on a measure of a subject. One of AtMost and AtLeast is set.
type Target struct {
	Measure         string
	AtMost, AtLeast float64
	Times           string // the subject whose measure the bound multiplies; "" means a plain number
}

// Group is one table: subjects that do the same work.
type Group struct {
	Name      string // for -only, such as "hot-1cpu"
	Title     string
	Note      string // describes the work in a sentence or two
	Measures  []Measure
	Reference string // the subject to which ratios of the first measure refer
	Subjects  []Subject
	// Full and Quick are how long a subject runs in a round, in each mode.
	Full, Quick time.Duration
	// Rounds and QuickRounds are the numbers of rounds; 0 means 7 and 3.
	Rounds, QuickRounds int
	// Procs is GOMAXPROCS while the group runs; 0 keeps the current value.
	Procs int
}

const (
	defaultRounds = 7
	quickRounds   = 3
)

func (g *Group) rounds(quick bool) int {
	switch {
	case quick && g.QuickRounds > 0:
		return g.QuickRounds
	case quick:
		return quickRounds
	case g.Rounds > 0:
		return g.Rounds
	}
	return defaultRounds
}

func (g *Group) each(quick bool) time.Duration {
	if quick {
		return g.Quick
	}
	return g.Full
}

// Func is a Runner with nothing to close.
type Func func(ctx context.Context, d time.Duration) (Sample, error)

// Round calls f.
func (f Func) Round(ctx context.Context, d time.Duration) (Sample, error) { return f(ctx, d) }

// Close does nothing.
func (Func) Close() error { return nil }
