package suite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// Options configures the run of a group.
type Options struct {
	Quick    bool
	Progress io.Writer
	Profiles string // directory for profiles, made after the rounds; "" for none
}

// Profiler is a Runner whose work can be profiled.
type Profiler interface {
	// Profile repeats the work and writes its profiles to files whose names begin with prefix.
	Profile(ctx context.Context, prefix string) error
}

// Run runs the rounds of a group. If a subject of others fails to start, or in a round, its row has
// no figures and says why; a failure of one of ours is an error.
func Run(ctx context.Context, g Group, o Options) (table Table, err error) {
	if g.Procs > 0 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(g.Procs))
	}
	runners := make([]Runner, len(g.Subjects))
	samples := make([][]Sample, len(g.Subjects))
	absent := make([]string, len(g.Subjects))
	defer func() { err = errors.Join(err, closeAll(runners)) }()
	for i, s := range g.Subjects {
		fmt.Fprintf(o.Progress, "%s: starting %s\n", g.Name, s.Name)
		if runners[i], err = s.Start(ctx); err != nil {
			if ctx.Err() != nil || s.Ours {
				return table, fmt.Errorf("%s: %s: %w", g.Name, s.Name, err)
			}
			absent[i], runners[i] = err.Error(), nil
		}
	}
	runtime.GC() // so that garbage of the start does not disturb the rounds
	for round := range g.rounds(o.Quick) {
		fmt.Fprintf(o.Progress, "%s: round %d of %d\n", g.Name, round+1, g.rounds(o.Quick))
		for n := range g.Subjects {
			i := (n + round) % len(g.Subjects) // rotates the order, so that no subject is always first
			if runners[i] == nil {
				continue
			}
			s, err := runners[i].Round(ctx, g.each(o.Quick))
			if err == nil {
				samples[i] = append(samples[i], s)
				continue
			}
			if ctx.Err() != nil || g.Subjects[i].Ours {
				return table, fmt.Errorf("%s: %s: %w", g.Name, g.Subjects[i].Name, err)
			}
			fmt.Fprintf(o.Progress, "%s: %s: %v\n", g.Name, g.Subjects[i].Name, err)
			absent[i], samples[i] = err.Error(), nil
			closing := runners[i]
			runners[i] = nil
			if err := closing.Close(); err != nil {
				return table, fmt.Errorf("%s: %s: %w", g.Name, g.Subjects[i].Name, err)
			}
		}
	}
	table = tabulate(g, samples, absent)
	table.Time, table.Load = time.Now().UTC().Truncate(time.Second), load()
	return table, profile(ctx, g, runners, o)
}

// profile profiles the runners that support it, one after another.
func profile(ctx context.Context, g Group, runners []Runner, o Options) error {
	if o.Profiles == "" {
		return nil
	}
	for i, r := range runners {
		p, ok := r.(Profiler)
		if !ok {
			continue
		}
		fmt.Fprintf(o.Progress, "%s: profile of %s\n", g.Name, g.Subjects[i].Name)
		name := strings.Trim(notInFiles.ReplaceAllString(strings.ToLower(g.Subjects[i].Name), "-"), "-")
		if err := p.Profile(ctx, filepath.Join(o.Profiles, g.Name+"-"+name)); err != nil {
			return fmt.Errorf("%s: profile of %s: %w", g.Name, g.Subjects[i].Name, err)
		}
	}
	return nil
}

var notInFiles = regexp.MustCompile(`[^a-z0-9.]+`)

func closeAll(runners []Runner) error {
	var errs []error
	for _, r := range runners {
		if r != nil {
			errs = append(errs, r.Close())
		}
	}
	return errors.Join(errs...)
}
