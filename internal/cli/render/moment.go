package render

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/quorate/quorate/internal/cli/exit"
)

// Moment parses the value of a flag: a time, or how long ago it is. An empty text gives nil.
func Moment(flag, text string, now time.Time) (*timestamppb.Timestamp, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // no time is a valid answer
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return timestamppb.New(t), nil
	}
	d, ok := parseDays(text)
	if !ok {
		return nil, badMoment(flag, text)
	}
	return timestamppb.New(now.Add(-d).Truncate(time.Second)), nil
}

func badMoment(flag, text string) error {
	return exit.Usagef("--%s %q: must be a time such as 2026-11-22T12:00:00Z, or how long ago, such as 90m or 7d", flag, text)
}

// parseDays parses a duration of 0 or more, in which whole days may precede the units of Go: 90m, 7d, 1d12h.
func parseDays(text string) (d time.Duration, ok bool) {
	days := uint64(0)
	if n, rest, found := strings.Cut(text, "d"); found {
		whole, err := strconv.ParseUint(n, 10, 12) // about eleven years
		if err != nil {
			return 0, false
		}
		if days, text = whole, rest; rest == "" {
			text = "0s"
		}
	}
	d, err := time.ParseDuration(text)
	d += time.Duration(days) * 24 * time.Hour
	return d, err == nil && d >= 0
}

// lifetime is a flag for durations of days.
type lifetime struct{ of *time.Duration }

// LifetimeFlag adds a flag for a duration that may be in days.
func LifetimeFlag(cmd *cobra.Command, of *time.Duration, name string, usual time.Duration, usage string) {
	*of = usual
	cmd.Flags().Var(lifetime{of}, name, usage)
}

// String implements pflag.Value.
func (l lifetime) String() string {
	const day = 24 * time.Hour
	switch {
	case l.of == nil || *l.of == 0:
		return ""
	case *l.of%day == 0:
		return fmt.Sprintf("%dd", *l.of/day)
	}
	return Span(*l.of)
}

// Type implements pflag.Value.
func (lifetime) Type() string { return "duration" }

// Set implements pflag.Value.
func (l lifetime) Set(text string) error {
	d, ok := parseDays(text)
	if !ok {
		return errors.New("must be a duration with its unit, such as 12h or 30d")
	}
	*l.of = d
	return nil
}
