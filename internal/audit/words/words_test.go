package words

import (
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/api/auth"
)

// TestCalls checks that every call has a description, and that no description is left of a
// removed call.
func TestCalls(t *testing.T) {
	methods := append(auth.Methods(), "console/sign-in")
	names, said := []string{}, map[string]string{}
	for _, m := range methods {
		name := Name(m)
		names = append(names, name)
		words := calls[name]
		if words == "" {
			t.Errorf("%s has no words; give it some in calls.go", m)
		} else if was := said[words]; was != "" {
			t.Errorf("%s and %s are both %q", was, m, words)
		}
		said[words] = m
	}
	for name := range calls {
		if !slices.Contains(names, name) {
			t.Errorf("%s has words and is no call", name)
		}
	}
	for method, want := range map[string]string{"/quorate.v1.NewService/Do": "NewService/Do", "redis GET": "Redis command GET", "": ""} {
		if got := Call(method); got != want {
			t.Errorf("%q is %q, want %q", method, got, want)
		}
	}
}

// TestMatching checks that the filter of the audit log finds calls by description and by name, and
// has at most as many texts as the API takes.
func TestMatching(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "Reset A": "Reset A KeyService/ResetKey", "RESETKEY": "RESETKEY", "/quorate.v1.KeyService": "/quorate.v1.KeyService",
	} {
		if got := strings.Join(Matching(text, 64), " "); got != want {
			t.Errorf("%q: %s; want %s", text, got, want)
		}
	}
	if n := len(Matching("e", 64)); n != 64 {
		t.Errorf("%d methods", n)
	}
}

// TestSentence checks the sentences of the audit log, and that every call that changes something
// has one in the past tense.
func TestSentence(t *testing.T) {
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
		if got := Sentence(tc.method, "", tc.result == "ok"); got != tc.want {
			t.Errorf("%s, %s: %q; want %q", tc.method, tc.result, got, tc.want)
		}
	}
	if got := Sentence("/quorate.v1.LimitService/ApplyLimits", "comment=\"x\" dry_run=true", true); got != "would have changed limits (dry run)" {
		t.Error(got)
	}
	if got := Sentence("/quorate.v1.LimitService/ApplyLimits", `comment="dry_run=true"`, true); got != "changed limits" {
		t.Errorf("a comment makes a change a dry run: %s", got)
	}
	for _, tc := range []struct{ call, what, want, rest string }{
		{"ClusterService/ChangeNode", `node="n2" change=NODE_CHANGE_DRAIN`, "drained n2", ""},
		{"ClusterService/ChangeNode", `node="n2" change=NODE_CHANGE_LEAVE force=true`, "let n2 leave", ""},
		{"ClusterService/ChangeNode", `node="n2" change=NODE_CHANGE_NEW`, "changed the state of a node", `node: "n2", change: NODE_CHANGE_NEW`},
		{"ClusterService/RotateAuthority", `ask=true`, "read the state of the certificate authority", ""},
		{"ClusterService/RotateAuthority", `finish=true`, "ended the trust in the earlier certificate authority", ""},
		{"ClusterService/RotateAuthority", ``, "rotated the certificate authority", ""},
		{"SecurityService/SetBinding", `binding={identity="group:on-call" role="operator" scope="*"}`, "granted operator to group:on-call, everywhere", ""},
		{"SecurityService/SetBinding", `binding={identity="client:web" permissions=(2)["a", "b"]}`, "granted a role", `binding: {identity: "client:web", permissions: ["a", "b"]}`},
		{"SecurityService/DeleteBinding", `identity="token:ci" role="planner" scope="namespace:web"`, "revoked planner of token:ci, in namespace:web", ""},
		{"SecurityService/CreateToken", `name="ci" ttl=720h0m0s comment="a\" name=\"boss"`, "created a token for token:ci", `a" name="boss`},
		{"SecurityService/CreateToken", `ttl=720h0m0s comment=" name=\"boss\" "`, "created a token", `ttl: 720h0m0s, comment: " name=\"boss\" "`},
		{"SecurityService/RevokeToken", `id="k1"`, "revoked the token k1", ""},
		{"ClusterService/RevokeJoinToken", `id="k1"`, "revoked the join token k1", ""},
		{"ClusterService/Join", `token=[secret] node="n4" peer_address="10.0.0.4:7001" csr=(300 bytes)`, "let node n4 join", ""},
		{"ClusterService/IssueCertificate", `csr=(300 bytes) name="web"`, "issued a certificate to client:web", ""},
		{"ClusterService/TransferLeadership", `ranges=(1)[0] to="n2"`, "transferred the leadership of range 0 to n2", ""},
		{"ClusterService/TransferLeadership", `ranges=(5)[0, 1, 2, ...] from="n1" to="n2"`, "transferred the leadership of 5 ranges from n1 to n2", ""},
		{"ClusterService/TransferLeadership", `from="n1"`, "transferred the leadership of all ranges from n1", ""},
		{"ClusterService/TransferLeadership", "", "transferred leadership", ""},
		{"KeyService/ResetKey", `namespace="web" limit="login" key="10.0.0.1"`, "reset the key 10.0.0.1 of web/login", ""},
		{"OverrideService/SetOverrides", `overrides=(1)[{namespace="web" limit="login" key="a" burst=5 comment="x"}]`, "set the override of the key a of web/login", ""},
		{"OverrideService/SetOverrides", `overrides=(4)[{namespace="web" limit="login" key="a"}, {namespace="web" limit="login" key="b"}, ...]`, "set 4 overrides", ""},
		{"OverrideService/DeleteOverrides", `keys=(1)[{namespace="web" limit="login" key="a"}]`, "cleared the override of the key a of web/login", ""},
		{"LimitService/ApplyLimits", `yaml=(1359 bytes) source="limits.yaml" expected_version=3 comment="for Friday"`, "changed limits, from limits.yaml", "for Friday"},
		{"LimitService/RollbackLimits", `version=7`, "rolled limits back to version 7", ""},
		{"LimitService/DeleteLimits", `limits=(1)[{namespace="web" limit="login"}]`, "deleted the limit web/login", ""},
		{"LimitService/DeleteLimits", `limits=(2)[{namespace="web" limit="login"}, {namespace="web" limit="b"}] comment="unused"`, "deleted 2 limits", "unused"},
		{
			"AccountAdminService/ApplyOps", `request_id="r" ops=(1)[{account_id={app_id="shop" realm="project:web" namespace="ci" name="release" resource_type="slots"} policy_id={config={app_id="shop"}} delta=-2}]`,
			"changed the account shop~project:web~~ci~release~slots by -2", "",
		},
		{"AccountAdminService/ApplyOps", `ops=(1)[{account_id={app_id="a" realm="r" resource_type="t"} delta=5 relative_to=RELATIVE_TO_ZERO}]`, "changed the account a~r~~~~t", ""},
		{"AccountAdminService/ApplyOps", `ops=(2)[{account_id={app_id="a" realm="r" resource_type="t"} delta=5}, ...]`, "changed 2 accounts", ""},
		{"AccountAdminService/WritePolicies", `app_id="shop" realm="project:web" version="2026-11" config={policies=(2)[...]}`, "loaded policies 2026-11 of shop~project:web", ""},
		{"AccountAdminService/WritePolicies", `app_id="shop" realm="project:web" config={policies=(2)[...]}`, "loaded policies of shop~project:web", ""},
		{"AccountAdminService/PurgePolicies", `id={app_id="shop" realm="project:web" version="2026-11"}`, "removed policies 2026-11 of shop~project:web", ""},
	} {
		method := "/quorate.v1." + tc.call
		if got := Sentence(method, tc.what, true); got != tc.want {
			t.Errorf("%s %s: %q; want %q", tc.call, tc.what, got, tc.want)
		}
		if got := Rest(method, tc.what); got != tc.rest {
			t.Errorf("%s %s: the rest is %q; want %q", tc.call, tc.what, got, tc.rest)
		}
	}
	const summary = `binding={identity="group:e2e" role="a=b \"c d"} ranges=(2)[0, 1] yaml=(1359 bytes) ttl=1h change=NODE_CHANGE_DRAIN comment="a (2)[b"`
	if got := Details(summary); got != `binding: {identity: "group:e2e", role: "a=b \"c d"}, ranges: [0, 1], yaml: (1359 bytes), ttl: 1h, change: drain, comment: "a (2)[b"` {
		t.Error(got)
	}
	for _, m := range auth.Methods() {
		rule, _ := auth.RuleOf(m)
		if got := Sentence(m, "", true); rule.Audited && strings.HasPrefix(got, "called") {
			t.Errorf("%s is %q; give its verb a past tense in donePast", m, got)
		}
	}
}
