package console

import (
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/api/auth"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
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

// TestCallsOf checks that the filter of the audit log finds calls by description and by name, and
// has at most as many texts as the API takes.
func TestCallsOf(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "Reset A": "Reset A KeyService/ResetKey", "RESETKEY": "RESETKEY", "/quorate.v1.KeyService": "/quorate.v1.KeyService",
	} {
		if got := strings.Join(callsOf(text), " "); got != want {
			t.Errorf("%q: %s; want %s", text, got, want)
		}
	}
	if n := len(callsOf("e")); n != auditMethods {
		t.Errorf("%d methods", n)
	}
}

// TestAuditSentence checks the sentences of the audit log, and that every call that changes something
// has one in the past tense.
func TestAuditSentence(t *testing.T) {
	for _, tc := range []struct{ method, result, want string }{
		{"/quorate.v1.LimitService/ApplyLimits", "ok", "changed limits"},
		{"/quorate.v1.LimitService/ApplyLimits", "denied", "tried to change limits"},
		{"/quorate.v1.ClusterService/ChangeNode", "ok", "changed the state of a node"},
		{"/quorate.v1.ClusterService/ChangeNode", "failed", "tried to change the state of a node"},
		{"/quorate.v1.QuotaService/Allow", "denied", "tried to check a limit"},
		{"/quorate.v1.NewService/Do", "ok", "called NewService/Do"},
		{"/quorate.v1.NewService/Do", "denied", "tried to call NewService/Do"},
		{"console/sign-in", "ok", "signed in to the console"},
	} {
		if got := auditSentence(&quoratev1.AuditEntry{Method: tc.method, Result: tc.result}); got != tc.want {
			t.Errorf("%s, %s: %q; want %q", tc.method, tc.result, got, tc.want)
		}
	}
	if got := auditSentence(&quoratev1.AuditEntry{Method: "/quorate.v1.LimitService/ApplyLimits", Result: "ok", What: "comment=\"x\" dry_run=true"}); got != "made a dry run: change limits" {
		t.Error(got)
	}
	for what, want := range map[string]string{`node="n2" change=NODE_CHANGE_DRAIN`: "drained n2", `node="n2" change=NODE_CHANGE_LEAVE force=true`: "let n2 leave"} {
		if got := auditSentence(&quoratev1.AuditEntry{Method: "/quorate.v1.ClusterService/ChangeNode", Result: "ok", What: what}); got != want {
			t.Errorf("%s: %q; want %q", what, got, want)
		}
	}
	const summary = `binding={identity="group:e2e" role="a=b \"c d"} ranges=(2)[0, 1] yaml=(1359 bytes) ttl=1h change=NODE_CHANGE_DRAIN comment="a (2)[b"`
	if got := auditDetails(summary); got != `binding: {identity: "group:e2e", role: "a=b \"c d"}, ranges: [0, 1], yaml: (1359 bytes), ttl: 1h, change: drain, comment: "a (2)[b"` {
		t.Error(got)
	}
	for _, m := range auth.Methods() {
		rule, _ := auth.RuleOf(m)
		if got := auditSentence(&quoratev1.AuditEntry{Method: m, Result: "ok"}); rule.Audited && strings.HasPrefix(got, "called") {
			t.Errorf("%s is %q; give its verb a past tense in donePast", m, got)
		}
	}
}
