package limits

import (
	"strings"
	"testing"
)

// TestRecordedNames checks that history commands accept the names of limits and of policies of
// accounts, and other commands only limits.
func TestRecordedNames(t *testing.T) {
	const policy = "@accounts/cv~project:infra~ci~default~builds"
	for _, c := range []struct{ name, namespace, limit string }{
		{"web/login", "web", "login"},
		{policy, "@accounts", "cv~project:infra~ci~default~builds"},
		{"@accounts", "@accounts", ""},
		{"web", "web", ""},
	} {
		if namespace, limit, err := ParseRecordedScope(c.name); err != nil || namespace != c.namespace || limit != c.limit {
			t.Errorf("%s is read as %q, %q, %v", c.name, namespace, limit, err)
		}
	}
	if _, err := ParseRecorded("@accounts/builds"); err == nil || !strings.Contains(err.Error(), "must be app~realm~namespace~name~type") {
		t.Errorf("of no policy: %v", err)
	}
	if _, err := parseName(policy); err == nil {
		t.Error("a policy was taken for a limit")
	}
}
