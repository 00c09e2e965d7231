package scenario

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/quota"
)

// FuzzParse: a file is either refused with places that are in it, or within all
// bounds.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("../../../examples/sim/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatal("no examples", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := Parse("f", data)
		if err != nil {
			checkFaults(t, data, err)
			return
		}
		if len(all) == 0 || len(all) > MaxDocuments {
			t.Fatalf("%d scenarios", len(all))
		}
		for _, s := range all {
			checkBounds(t, s)
		}
	})
}

func checkFaults(t *testing.T, data []byte, err error) {
	t.Helper()
	fe, ok := errors.AsType[*config.FileError](err)
	if !ok || len(fe.Faults) == 0 {
		t.Fatalf("not a *config.FileError: %v", err)
	}
	lines := strings.Count(string(data), "\n") + 1
	for _, f := range fe.Faults {
		if f.Line < 0 || f.Line > lines+1 || (f.Line > 0) != (f.Column > 0) || f.Message == "" {
			t.Errorf("%d lines: %+v", lines, f)
		}
	}
}

func checkBounds(t *testing.T, s *Scenario) {
	t.Helper()
	n := s.Network
	switch {
	case s.Name == "", len(s.Seeds) == 0, len(s.Seeds) > MaxSeeds, len(s.Algorithms) == 0, len(s.Loads) == 0,
		s.Nodes < 1, s.Nodes > MaxNodes, s.Duration <= 0, s.Duration > MaxDuration, s.Sync < MinSync, s.Sync > MaxSync,
		s.Keys.Count < 1, s.Keys.Count > MaxKeys, n.Delay < 0, n.Delay > MaxDelay, n.Loss < 0, n.Loss > 1, s.Requests() > MaxRequests:
		t.Errorf("out of bounds: %+v", s)
	}
	if _, err := quota.NewLimits(1, []quota.Limit{s.Limit}); err != nil {
		t.Errorf("limit: %v", err)
	}
	for _, l := range s.Loads {
		if l.From < 0 || l.To > s.Duration || l.To != 0 && l.To <= l.From || l.Rate < 0 || l.Rate > MaxRate || l.Clump < 1 || l.Cost < 1 {
			t.Errorf("load %+v", l)
		}
	}
	for _, f := range s.Faults {
		for _, node := range f.Nodes {
			if node < 1 || node > s.Nodes {
				t.Errorf("fault %+v of %d nodes", f, s.Nodes)
			}
		}
		if f.Kind == "" || f.At > s.Duration || f.For < 0 {
			t.Errorf("fault %+v", f)
		}
	}
}
