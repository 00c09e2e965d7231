package accounts

import (
	"strings"
	"testing"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// TestPolicyCell checks that only people see the hash of a policy shortened.
func TestPolicyCell(t *testing.T) {
	hash := "$" + strings.Repeat("ab", 32)
	got := policyCell(&quoratev1.PolicyID{
		Config: &quoratev1.PolicyConfigID{AppId: "cv", Realm: "r", Version: hash},
		Key:    &quoratev1.PolicyKey{Namespace: "ci", Name: "default", ResourceType: "builds"},
	}, &quoratev1.AccountID{AppId: "cv", Realm: "r"})
	if got.Human != "$abababababa...~ci~default~builds" || got.Machine != hash+"~ci~default~builds" {
		t.Errorf("people see %q, programs %q", got.Human, got.Machine)
	}
	if got := policyCell(nil, nil); got.Human != "-" || got.Machine != "" {
		t.Errorf("of no policy people see %q, programs %q", got.Human, got.Machine)
	}
}
