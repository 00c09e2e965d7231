// Package testspeed sorts tests by duration.
//
// Quick tests run in every "go test ./...". Full tests run if TEST_SPEED is "full", as in
// "make test-full" and CI. Tests that take minutes have their own commands (make soak-kills,
// make campaign).
package testspeed

import (
	"os"
	"testing"
)

// Variable is the environment variable that selects the speed. It does not begin with QUORATE_
// because nodes reject unknown variables with that prefix.
const Variable = "TEST_SPEED"

// IsFull reports whether full tests run. A test whose size depends on its speed asks it.
func IsFull() bool { return os.Getenv(Variable) == "full" }

// Full skips the test unless full tests run. Tests that take longer than about two seconds call it,
// and tests whose guarantee a quick test checks too.
func Full(tb testing.TB) {
	tb.Helper()
	if !IsFull() {
		tb.Skip("a full test: run it with " + Variable + "=full, or all of them with make test-full")
	}
}
