package render

import (
	"strconv"
	"strings"
	"time"

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
	span := text
	days := time.Duration(0)
	if n, rest, ok := strings.Cut(text, "d"); ok {
		whole, err := strconv.ParseUint(n, 10, 12) // about eleven years
		if err != nil {
			return nil, badMoment(flag, text)
		}
		days, span = time.Duration(whole), rest
	}
	d := time.Duration(0)
	if span != "" {
		var err error
		if d, err = time.ParseDuration(span); err != nil {
			return nil, badMoment(flag, text)
		}
	}
	if d += days * 24 * time.Hour; d < 0 {
		return nil, badMoment(flag, text)
	}
	return timestamppb.New(now.Add(-d).Truncate(time.Second)), nil
}

func badMoment(flag, text string) error {
	return exit.Usagef("--%s %q: must be a time such as 2026-11-22T12:00:00Z, or how long ago, such as 90m or 7d", flag, text)
}
