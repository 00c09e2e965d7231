package sim

import "testing"

// long leaves a test out of -short runs: those of the race detector, which makes it ten times as
// long and has nothing to find in one goroutine.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("plays for seconds in one goroutine; left out by -short")
	}
}
