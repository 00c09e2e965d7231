package scenario

import "testing"

// TestRegressions plays the scenarios that failed once: none does any more.
func TestRegressions(t *testing.T) { playExamples(t, readAll(t, "regressions")) }
