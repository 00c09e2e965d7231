package render

import (
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// TestMoment parses times, and how long ago they are.
func TestMoment(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{"90m": 90 * time.Minute, "7d": 168 * time.Hour, "1d12h": 36 * time.Hour, "2026-11-22T11:00:00Z": time.Hour, "0s": 0} {
		got, err := Moment("from", text, now)
		if err != nil || now.Sub(got.AsTime()) != want {
			t.Errorf("%q: %v, %v; want %v ago", text, got, err, want)
		}
	}
	for _, text := range []string{"x", "-1h", "7", "d", "1.5d", "99999999d", "7dd", "yesterday"} {
		if got, err := Moment("from", text, now); err == nil {
			t.Errorf("%q: %v", text, got.AsTime())
		}
	}
	var d time.Duration
	cmd := &cobra.Command{}
	LifetimeFlag(cmd, &d, "ttl", 90*24*time.Hour, "")
	for text, want := range map[string]string{"30d": "30d", "1d12h": "36h", "90m": "1h30m", "48h": "2d", "0s": ""} {
		if err := cmd.Flags().Set("ttl", text); err != nil || cmd.Flag("ttl").Value.String() != want {
			t.Errorf("--ttl %s: %v, %v; want %s", text, cmd.Flag("ttl").Value, err, want)
		}
	}
	if got, err := Moment("from", "", now); got != nil || err != nil {
		t.Errorf("nothing: %v, %v", got, err)
	}
}
