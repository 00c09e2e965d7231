package console

import (
	"slices"
	"testing"

	"github.com/quorate/quorate/api/auth"
	"github.com/quorate/quorate/internal/audit"
)

// TestCallWords checks that every call has a description, and that no description is left of a
// removed call.
func TestCallWords(t *testing.T) {
	methods := append(auth.Methods(), "console/sign-in")
	names, said := []string{}, map[string]string{}
	for _, m := range methods {
		name := callName(m)
		names = append(names, name)
		words := callWords[name]
		if words == "" {
			t.Errorf("%s has no words; give it some in callwords.go", m)
		} else if was := said[words]; was != "" {
			t.Errorf("%s and %s are both %q", was, m, words)
		}
		said[words] = m
	}
	for name := range callWords {
		if !slices.Contains(names, name) {
			t.Errorf("%s has words and is no call", name)
		}
	}
	for method, want := range map[string]string{"/quorate.v1.NewService/Do": "NewService/Do", "redis GET": "Redis command GET", "": ""} {
		if got := callText(method); got != want {
			t.Errorf("%q is %q, want %q", method, got, want)
		}
	}
}

// TestAuditFindsCalls checks that the audit filter finds calls by description and by name, in any
// case.
func TestAuditFindsCalls(t *testing.T) {
	e := &audit.Entry{Method: "/quorate.v1.KeyService/ResetKey", Result: audit.OK}
	for text, want := range map[string]bool{"": true, "reset a": true, "RESETKEY": true, "/quorate.v1.KeyService": true, "limits": false} {
		if got := (&auditView{Method: text}).match(e); got != want {
			t.Errorf("%q: found %t", text, got)
		}
	}
}
