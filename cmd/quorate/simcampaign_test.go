package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/cli"
	"github.com/quorate/quorate/internal/cli/simulate"
	"github.com/quorate/quorate/internal/sim"
)

// campaignSize returns how many scenarios the test plays. Each is a simulation in one goroutine, so
// the race detector needs only as many as keep all processors busy.
func campaignSize() int {
	if testing.Short() {
		return 12
	}
	return 60
}

// playCampaign returns the output of a campaign of that size.
func playCampaign(ctx context.Context, t *testing.T, more ...string) (string, string, int) {
	t.Helper()
	var out, errs bytes.Buffer
	code := cli.Run(ctx, append([]string{"sim", "--campaign", strconv.Itoa(campaignSize())}, more...), &out, &errs)
	return out.String(), errs.String(), code
}

// TestCampaignCounts checks that every scenario has one kind of limit, that the output can be
// quoted, and that the same seeds give the same fingerprint in whatever order the processors played
// them.
func TestCampaignCounts(t *testing.T) {
	var lines [2]simulate.CampaignLine
	for i := range lines {
		out, errs, code := playCampaign(t.Context(), t, "-o", "json")
		if code != 0 || errs != "" {
			t.Fatalf("exit code %d, %s", code, errs)
		}
		if err := json.Unmarshal([]byte(out), &lines[i]); err != nil {
			t.Fatal(err, out)
		}
	}
	l, size := &lines[0], campaignSize()
	if l.Fingerprint != lines[1].Fingerprint || len(l.Fingerprint) != 16 {
		t.Errorf("fingerprints %q and %q of the same seeds", l.Fingerprint, lines[1].Fingerprint)
	}
	for _, group := range []string{"limit", "ceiling", "nodes"} {
		sum := 0
		for _, n := range l.Counts[group] {
			sum += n.Scenarios
		}
		if sum != size {
			t.Errorf("%s: %v are %d scenarios of %d", group, l.Counts[group], sum, size)
		}
	}
	if l.Scenarios != size || l.Checked[sim.NoPanic] != size || l.Draws != sim.Draws || l.Interrupted || l.Version == "" {
		t.Errorf("%+v", l)
	}
	if l.HardExcess.Scenarios == 0 || l.HardExcess.Value > sim.Exact || l.SoftOfBound.Scenarios == 0 || l.SoftOfBound.Value > 1 {
		t.Errorf("hard %+v, soft %+v", l.HardExcess, l.SoftOfBound)
	}
	out, _, _ := playCampaign(t.Context(), t)
	for _, want := range []string{fmt.Sprintf("%d random scenarios from seed 0: all clean.", size), "fingerprint " + l.Fingerprint, "soft_bound", "FAULT", "LIMIT", "soft: at most"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}

// TestCampaignInterrupted checks that an interrupted campaign prints what it has played, and does
// not succeed.
func TestCampaignInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out, errs, code := playCampaign(ctx, t)
	of := fmt.Sprintf("0 of %d ", campaignSize())
	if code == 0 || !strings.Contains(out, of+"(interrupted) random scenarios from seed 0") || !strings.Contains(errs, "interrupted after "+of+"scenarios") {
		t.Errorf("exit code %d\n%s\n%s", code, out, errs)
	}
}
