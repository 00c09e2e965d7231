package sim

import "testing"

// long skips a test in -short runs. The race detector, which uses them, makes such a test ten times
// as slow and finds nothing in one goroutine.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("plays for seconds in one goroutine; left out by -short")
	}
}
