package config

import (
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/quorate/quorate/api/access"
	"github.com/quorate/quorate/internal/account"
)

// TestPoliciesRoundTrip checks that ParsePolicies reads back what FormatPolicies writes, also the
// strangest names.
func TestPoliciesRoundTrip(t *testing.T) {
	want := map[account.PolicyKey]account.Policy{
		{Namespace: "no", Name: "#x", Resource: "a: b"}: {Limit: account.Most, Refill: account.Refill{Units: 1}},
		{Name: `"|{"`, Resource: "日本"}:                  {Default: 1, Limit: 1, Refill: account.Refill{Units: -7, Interval: 1, Offset: 86400}, Options: account.AbsoluteResource, Lifetime: 1},
		{Name: "1", Resource: "null"}:                   {Lifetime: 400 * 24 * 3600e9},
	}
	text := FormatPolicies(want)
	got, err := ParsePolicies("written", text)
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%s\nread back as %v, %v", text, got, err)
	}
}

// TestAccountWords checks that ids parse back from their words, and that errors describe what is
// wrong.
func TestAccountWords(t *testing.T) {
	near := account.ConfigID{App: "cv", Realm: "r"}
	for _, word := range []string{"cv~project:infra~user:a~ci|x~{a~builds", "cv~r~~~n~t"} {
		if id, err := ParseAccountID(word); err != nil || FormatAccountID(id) != word {
			t.Errorf("%s: %v, %v", word, id, err)
		}
	}
	for _, c := range [][2]string{{"$h~ci~d~b", "$h~ci~d~b"}, {"#v/ci/d/b", "#v~ci~d~b"}, {"rdb~r~$h~~d~b", "rdb~r~$h~~d~b"}, {"cv~r~$h~a/b~d~b", "$h~a/b~d~b"}} {
		if ref, err := ParsePolicyRef(c[0], near); err != nil || FormatPolicyRef(ref, near) != c[1] {
			t.Errorf("%s: %v, %v", c[0], ref, err)
		}
	}
	for _, c := range [][2]string{{"$h", "cv~r~$h"}, {"a~b~#v", "a~b~#v"}} {
		if id, err := ParseConfigID(c[0], near); err != nil || FormatConfigID(id) != c[1] {
			t.Errorf("%s: %v, %v", c[0], id, err)
		}
	}
	for word, want := range map[string]string{
		"a~b": "has 2 parts; must be app~realm~identity~namespace~name~type", "cv~r~~~~t": "name: is empty",
		"~r~~~n~t": "app: is empty", "a~r~~~n~": "type: is empty",
	} {
		if _, err := ParseAccountID(word); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", word, err, want)
		}
	}
	for word, want := range map[string]string{"h~ci~d~b": "version:", "$h~ci~~b": "name: is empty", "$h/d/b": "has 3 parts"} {
		if _, err := ParsePolicyRef(word, near); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", word, err, want)
		}
	}
	if _, err := ParseConfigID("a~b", near); err == nil {
		t.Error("a config of two parts")
	}
	if _, err := ParseConfigID("$h", account.ConfigID{}); err == nil || !strings.Contains(err.Error(), "app: is empty") {
		t.Errorf("without an app: %v", err)
	}
}

// TestExampleAccounts checks that the files of examples/accounts are valid.
func TestExampleAccounts(t *testing.T) {
	text, err := os.ReadFile("../examples/accounts/policies.yaml")
	if err != nil {
		t.Fatal(err)
	}
	policies, err := ParsePolicies("policies.yaml", text)
	tenADay := policies[account.PolicyKey{Namespace: "ci", Name: "default", Resource: "builds"}]
	if err != nil || tenADay.Limit != 10 || tenADay.Refill != (account.Refill{Units: 10, Interval: 86400}) {
		t.Errorf("%+v, %v", policies, err)
	}
	if text, err = os.ReadFile("../examples/accounts/ops.yaml"); err != nil {
		t.Fatal(err)
	}
	build, err := os.ReadFile("../examples/accounts/build.json")
	if version := account.HashPolicies(policies); err != nil || !strings.Contains(string(build), `"`+version+`"`) {
		t.Errorf("examples/accounts/build.json does not name the version of policies.yaml, %s: %v", version, err)
	}
	ops, err := ParseOps("ops.yaml", text, account.ConfigID{App: "cv", Realm: "project:infra"})
	if err != nil || len(ops.Ops) != 2 || ops.Ops[0].Account.Placement() != ops.Ops[1].Account.Placement() {
		t.Errorf("%+v, %v", ops, err)
	}
}

// TestDurableQuotasDoc checks that the policies and settings of docs/explanation/durable-quotas.md are valid,
// and that it explains every permission and field.
func TestDurableQuotasDoc(t *testing.T) {
	text, err := os.ReadFile("../docs/explanation/durable-quotas.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml( settings)?\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) != 2 {
		t.Errorf("%d examples; want policies and settings", len(blocks))
	}
	for _, b := range blocks {
		if b[1] != "" {
			_, err = ParseNode("docs/explanation/durable-quotas.md", []byte(b[2]))
		} else {
			_, err = ParsePolicies("docs/explanation/durable-quotas.md", []byte(b[2]))
		}
		if err != nil {
			t.Error(err)
		}
	}
	words := append(append(access.Permissions(), access.Attributes(access.AccountsRead)...), policyOptions...)
	for _, f := range (&policyFile{}).policyFields(&account.PolicyKey{}, &account.Policy{}) {
		words = append(words, f.Name)
	}
	for _, o := range opOptions {
		words = append(words, o.word)
	}
	for _, word := range words {
		if !strings.Contains(string(text), "`"+word+"`") {
			t.Errorf("docs/explanation/durable-quotas.md does not explain %s", word)
		}
	}
}
