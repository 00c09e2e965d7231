package scenario

import (
	"os"
	"path/filepath"
	"testing"
)

// TestRegressions plays the scenarios that failed once: none does any more.
func TestRegressions(t *testing.T) {
	files, err := filepath.Glob("../../../examples/sim/regressions/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all, err := Parse(file, data)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			t.Run(s.Name, func(t *testing.T) { playExample(t, s) })
		}
	}
}
