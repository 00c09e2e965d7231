package suite

import (
	"context"
	"time"
)

// Measure is a column of a table.
type Measure struct {
	Name string // as in Sample, such as "CPU"
	Unit string // such as "ns"; "" is a count
	More bool   // more is better
}

// Sample is what one round of a subject gave, by the measure's name.
type Sample map[string]float64

// Runner is a subject that is ready to run.
type Runner interface {
	// Round works for about that long and says what it measured. It fails when the
	// work was not what the group is about, such as a refusal among what is allowed.
	Round(ctx context.Context, d time.Duration) (Sample, error)
	// Close ends it and whatever was started for it.
	Close() error
}

// Subject is one row of a table.
type Subject struct {
	Name    string
	Ours    bool // Quorate's
	Start   func(ctx context.Context) (Runner, error)
	Targets []Target
}

// Target is what a subject's measure is to stay below or above. One of AtMost and
// AtLeast is set.
type Target struct {
	Measure         string
	AtMost, AtLeast float64
	Times           string // the subject of whose measure it is a multiple; "" is a plain number
}

// Group is one table: subjects that do the same work.
type Group struct {
	Name      string // for -only, such as "hot-1cpu"
	Title     string
	Note      string // what the work is, in a sentence or two
	Measures  []Measure
	Reference string // the subject that ratios of the first measure are taken to
	Subjects  []Subject
	// Full and Quick are how long a subject runs in a round, in either mode.
	Full, Quick time.Duration
	// Rounds and QuickRounds are how often; 0 is 7 and 3.
	Rounds, QuickRounds int
	// Procs is GOMAXPROCS while the group runs; 0 leaves it.
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

// Func is a Runner without an end of its own.
type Func func(ctx context.Context, d time.Duration) (Sample, error)

// Round calls f.
func (f Func) Round(ctx context.Context, d time.Duration) (Sample, error) { return f(ctx, d) }

// Close does nothing.
func (Func) Close() error { return nil }
