package account

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/quorate/quorate/internal/quota"
)

// TestUnder checks that an outcome names the policy of each operation, also for refused operations
// and for a repeated Prepare.
func TestUnder(t *testing.T) {
	ref := func(name string) *PolicyRef {
		return &PolicyRef{Config: ConfigID{App: "cv", Realm: "p:r", Version: "#1"}, Key: PolicyKey{Namespace: "ci", Name: name, Resource: "builds"}}
	}
	day, week := ref("day"), ref("week")
	rule := &Policy{Default: 5, Limit: 10}
	id := func(name string) ID { return ID{App: "cv", Realm: "p:r", Name: name, Resource: "builds"} }
	s := New(Bounds{})
	names := func(out Outcome) string {
		var all []string
		for _, p := range out.Under {
			if p == nil {
				all = append(all, "-")
				continue
			}
			all = append(all, p.Key.Name)
		}
		return strings.Join(all, " ")
	}
	first := Request{By: "me", ID: "1", Ops: []Op{
		{Account: id("a"), Policy: day, Rule: rule, Delta: -1},
		{Account: id("b"), Policy: week, Rule: rule, Delta: -1},
		{Account: id("c"), Delta: 3, RelativeTo: Zero, Options: IgnorePolicyBounds},
	}}
	for _, step := range []struct {
		what string
		c    Command
		code Code
		want string
	}{
		{"made", Command{Apply: &first}, Done, "day week -"},
		{"repeated", Command{Apply: &first}, Repeated, ""},
		{"by the account's copy", Command{Apply: &Request{Ops: []Op{{Account: id("a"), Delta: -1}}}}, Done, "day"},
		{"refused by the copy", Command{Apply: &Request{Ops: []Op{{Account: id("b"), Delta: -9}}}}, Failed, "week"},
		{"refused by the one it sets", Command{Apply: &Request{Ops: []Op{{Account: id("b"), Policy: day, Rule: rule, Delta: -9}}}}, Failed, "day"},
		{"refused, nothing known", Command{Apply: &Request{Ops: []Op{{Account: id("z"), Delta: -9}}}}, Failed, "-"},
		{"begun", Command{Begin: &Begin{Tx: TxID{1}, Part: Request{Ops: []Op{{Account: id("b"), Delta: -1}, {Account: id("a"), Delta: -1}}}}}, Done, "week day"},
		{"begun, told again", Command{Begin: &Begin{Tx: TxID{1}, Part: Request{Ops: []Op{{Account: id("b"), Delta: -1}, {Account: id("a"), Delta: -1}}}}}, Done, "week day"},
	} {
		if out := s.Apply(1, &step.c); out.Code != step.code || names(out) != step.want {
			t.Errorf("%s: %v, went by %q; want %v, %q", step.what, out.Code, names(out), step.code, step.want)
		}
	}
}

func TestDemand(t *testing.T) {
	for _, c := range []struct {
		op   Op
		want int64
	}{
		{Op{Delta: -3}, 3},
		{Op{Delta: -3, Options: IgnorePolicyBounds}, 3},
		{Op{}, 0},
		{Op{Delta: 3}, 0},
		{Op{Delta: -3, RelativeTo: Zero}, 0},
		{Op{Delta: -3, RelativeTo: Limit}, 0},
	} {
		if got := c.op.Demand(); got != c.want {
			t.Errorf("%+v asks for %d, want %d", c.op, got, c.want)
		}
	}
}

// TestLimitName checks that names fit into the history for any ids, stay distinct, and are valid in
// queries.
func TestLimitName(t *testing.T) {
	long := strings.Repeat("ä", 128)
	ref := func(app, name string) *PolicyRef {
		return &PolicyRef{Config: ConfigID{App: app, Realm: "project:infra", Version: "$a"}, Key: PolicyKey{Namespace: "ci", Name: name, Resource: "builds"}}
	}
	if got, want := ref("cv", "default").LimitName().String(), "@accounts/cv~project:infra~ci~default~builds"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	a, b := ref(long, long+"a").LimitName(), ref(long, long+"b").LimitName()
	if a == b || len(a.Limit) > quota.MaxNameLen || !utf8.ValidString(a.Limit) {
		t.Errorf("%v and %v", a, b)
	}
	for _, n := range []quota.LimitName{a, b, ref("cv", "default").LimitName()} {
		if got, err := quota.ParseRecorded(n.String()); err != nil || got != n {
			t.Errorf("%v is read as %v, %v", n, got, err)
		}
	}
	for _, bad := range []string{"@accounts", "@accounts/", "@accounts/builds", "@other/a~b", "@accounts/a~" + long} {
		if n, err := quota.ParseRecorded(bad); err == nil {
			t.Errorf("%q is read as %v", bad, n)
		}
	}
}
