package auth

import "testing"

// TestShown checks that people see no technical name for a caller without an identity.
func TestShown(t *testing.T) {
	for identity, want := range map[string]string{Anonymous: "anonymous", "user:ann": "user:ann", "": ""} {
		if got := Shown(identity); got != want {
			t.Errorf("%q: %q; want %q", identity, got, want)
		}
	}
}
