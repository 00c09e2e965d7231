package rbac

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/quota"
)

// TestHas: a permission holds where it was given and below, for whom it was given,
// and nowhere else.
func TestHas(t *testing.T) {
	table := mustTable(t,
		Binding{Identity: "client:ci", Role: "limit-writer", Scope: Namespace("web")},
		Binding{Identity: "client:ci", Permissions: []string{"check"}},
		Binding{Identity: "user:*", Role: "planner"},
		Binding{Identity: Anybody, Permissions: []string{"metrics.read"}, Scope: Everywhere},
		Binding{Identity: "group:sre", Role: Admin},
		Binding{Identity: "dns:app", Role: "accountant", Scope: Realm("project:infra")},
	)
	for _, c := range []struct {
		who  []string
		p    Permission
		in   Scope
		want bool
	}{
		{[]string{"client:ci"}, LimitsWrite, Namespace("web"), true},
		{[]string{"client:ci"}, LimitsWrite, Namespace("api"), false},
		{[]string{"client:ci"}, LimitsWrite, Everywhere, false},
		{[]string{"client:ci"}, Check, Namespace("api"), true},
		{[]string{"client:ci"}, Report, Namespace("web"), false},
		{[]string{"client:other"}, Check, Namespace("web"), false},
		{[]string{"user:ann", "user:*"}, RatesRead, Namespace("x"), true},
		{[]string{"user:ann", "user:*"}, LimitsWrite, Namespace("x"), false},
		{[]string{"user:*"}, ClusterRead, Everywhere, true},
		{[]string{"x:y", Anybody}, MetricsRead, Everywhere, true},
		{[]string{"x:y", Anybody}, Check, Everywhere, false},
		{[]string{"user:bob", "group:sre"}, AccessAdmin, Everywhere, true},
		{[]string{"user:bob", "group:sre"}, PoliciesPurge, Realm("r"), true},
		{[]string{"dns:app"}, AccountsUse, Realm("project:infra"), true},
		{[]string{"dns:app"}, AccountsUse, Realm("project:other"), false},
		{nil, Check, Everywhere, false},
	} {
		if got := table.Has(c.who, c.p, c.in); got != c.want {
			t.Errorf("%v %v %v: %v", c.who, c.p, c.in, got)
		}
		if c.want && !table.Somewhere(c.who, c.p) {
			t.Errorf("%v %v: not even somewhere", c.who, c.p)
		}
	}
	if table.Somewhere([]string{"client:ci"}, AccessAdmin) || !table.Somewhere([]string{"client:ci"}, LimitsWrite) {
		t.Error("somewhere")
	}
	if (&Table{}).Has([]string{Anybody, "client:admin"}, Check, Everywhere) {
		t.Error("the empty table gives something")
	}
}

func mustTable(t testing.TB, bindings ...Binding) *Table {
	t.Helper()
	table, err := NewTable(bindings)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestValidate(t *testing.T) {
	for want, b := range map[string]Binding{
		"":                            {Identity: "client:ci", Role: "checker", Scope: Namespace("web")},
		"identity: is 0 bytes":        {Role: "checker", Scope: Everywhere},
		"identity: is 129 bytes":      {Identity: strings.Repeat("x", 129), Role: "checker", Scope: Everywhere},
		`must be KIND:NAME`:           {Identity: "ann", Role: "checker", Scope: Everywhere},
		"without control characters":  {Identity: "user:a\nb", Role: "checker", Scope: Everywhere},
		`unknown role "watcher"`:      {Identity: "user:a", Role: "watcher", Scope: Everywhere},
		"known: checker, reporter":    {Identity: "user:a", Role: "x", Scope: Everywhere},
		`unknown permission "limits"`: {Identity: "user:a", Permissions: []string{"limits"}, Scope: Everywhere},
		"give a role or permissions":  {Identity: "user:a", Role: "checker", Permissions: []string{"check"}, Scope: Everywhere},
		`is "" with 0 permissions`:    {Identity: "user:a", Scope: Everywhere},
		`scope: "web"; must be *`:     {Identity: "user:a", Role: "checker", Scope: "web"},
		`scope: "namespace:"`:         {Identity: "user:a", Role: "checker", Scope: "namespace:"},
		`cluster.read is never asked for in namespace "web", so the binding would give nothing; bind it in no scope`: {Identity: "user:a", Permissions: []string{"cluster.read"}, Scope: Namespace("web")},
		`bind it in a namespace or everywhere`:         {Identity: "user:a", Permissions: []string{"check"}, Scope: Realm("r")},
		`no permission of the role accountant applies`: {Identity: "user:a", Role: "accountant", Scope: Namespace("web")},
		"scope: is 600 bytes":                          {Identity: "user:a", Role: "checker", Scope: Scope("namespace:" + strings.Repeat("x", 590))},
		"permissions: a name of 65 bytes; at most 64":  {Identity: "user:a", Permissions: []string{strings.Repeat("p", 65)}, Scope: Everywhere},
	} {
		err := b.Validate()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; want %q", b, err, want)
		}
	}
}

// TestRoles: only admin may change who may do what; every permission is in some
// role besides admin, or is for admins alone; a role has more than those before it
// say.
func TestRoles(t *testing.T) {
	adminAlone := SetOf(DebugRead, AccessAdmin, AccountsRead, AccountsList, AccountsWrite, PoliciesRead, PoliciesWrite, PoliciesOverrideVersion, PoliciesPurge)
	var others Set
	for _, r := range Roles() {
		if r.Name != Admin {
			others |= r.Permissions
		}
		if r.Summary == "" || r.Permissions == 0 {
			t.Errorf("%+v", r)
		}
	}
	if got := everything &^ others; got != adminAlone {
		t.Errorf("only admins have %v; want %v", got.Names(), adminAlone.Names())
	}
	for _, name := range PermissionNames() {
		if p, ok := ParsePermission(name); !ok || p.String() != name {
			t.Errorf("%s: %v %v", name, p, ok)
		}
	}
}

func randomChange(rng *rand.Rand) *raftlogv1.ChangeSecurity {
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	b := &raftlogv1.StoredBinding{
		Identity: pick("client:a", "user:b", "*", "bad", ""), Role: pick("checker", "admin", "", "from-the-future"),
		Scope: pick("*", "", "namespace:web", "realm:r", "zone:z"), By: pick("x", "y"), AtUnixNanos: rng.Int64N(9),
	}
	if rng.IntN(2) == 0 {
		b.Role, b.Permissions = "", []string{pick("check", "report", "new.word"), pick("check", "limits.read")}
	}
	c := &raftlogv1.ChangeSecurity{AtUnixNanos: rng.Int64N(100)}
	switch rng.IntN(4) {
	case 0:
		c.Change = &raftlogv1.ChangeSecurity_SetBinding{SetBinding: b}
	case 1:
		c.Change = &raftlogv1.ChangeSecurity_DeleteBinding{DeleteBinding: b}
	case 2:
		c.Change = &raftlogv1.ChangeSecurity_AddToken{AddToken: &raftlogv1.StoredBearer{Id: pick("i", "j", "k"), Name: pick("ci", "b d"), Hash: make([]byte, 31+rng.IntN(3)), ExpiresUnixNanos: rng.Int64N(90)}}
	default:
		c.Change = &raftlogv1.ChangeSecurity_RevokeToken{RevokeToken: pick("i", "j", "z")}
	}
	return c
}

// TestReplicas: changes made twice, and a replica that comes from a snapshot
// halfway, end the same; what was refused or changed nothing leaves no trace; and
// the index says what the bindings say.
func TestReplicas(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		a, b := &Table{}, &Table{}
		for range 60 {
			c := randomChange(rng)
			before := a.Encode()
			next, res := a.Apply(c)
			if again, res := next.Apply(c); res.Changed || again != next {
				t.Fatalf("the same again changed something: %v", c)
			}
			if !proto.Equal(before, a.Encode()) || res.Changed == (next == a) || res.Changed && res.Err != nil {
				t.Fatalf("%v: %+v", c, res)
			}
			a = next
			b, _ = b.Apply(c)
			if rng.IntN(5) == 0 {
				var err error
				if b, err = Decode(b.Encode()); err != nil {
					t.Fatal(err)
				}
			}
		}
		if !proto.Equal(a.Encode(), b.Encode()) || !reflect.DeepEqual(a.index, b.index) {
			t.Fatalf("seed %d:\n%v\n%v", seed, a.Encode(), b.Encode())
		}
		checkIndex(t, a)
	}
}

func checkIndex(t *testing.T, a *Table) {
	t.Helper()
	for p := range permissionCount {
		for _, in := range []Scope{Everywhere, Namespace("web"), Realm("r")} {
			for _, who := range []string{"client:a", "user:b", Anybody} {
				want := slices.ContainsFunc(a.Bindings(), func(b Binding) bool {
					return b.Identity == who && (b.Scope == in || b.Scope == Everywhere) && b.Permits().Has(p)
				})
				if a.Has([]string{who}, p, in) != want {
					t.Fatalf("%s %v %v: want %v of %+v", who, p, in, want, a.Bindings())
				}
			}
		}
	}
}

// TestBounds: full is an error; expired tokens make place, bindings that are there
// can be replaced.
func TestBounds(t *testing.T) {
	table := &Table{}
	token := func(id string, expires, now quota.Time) Result {
		tok := Token{ID: id, Name: "ci", Expires: expires}
		var res Result
		table, res = table.Apply(&raftlogv1.ChangeSecurity{AtUnixNanos: int64(now), Change: &raftlogv1.ChangeSecurity_AddToken{AddToken: EncodeToken(&tok)}})
		return res
	}
	table.tokens = slices.Grow(table.tokens, MaxTokens)
	for i := range MaxTokens {
		table.tokens = append(table.tokens, Token{ID: strconv.Itoa(10*MaxTokens + i), Name: "ci", Expires: quota.Time(100 + i%2)})
	}
	if res := token("x", 0, 99); res.Err == nil || !strings.Contains(res.Err.Error(), "there are 10000 tokens; at most 10000") {
		t.Errorf("%+v", res)
	}
	if res := token("x", 0, 100); !res.Changed || len(table.Tokens()) != MaxTokens/2+1 || table.Token("x") == nil {
		t.Errorf("%+v: %d tokens", res, len(table.Tokens()))
	}
	if res := token("x", 5, 1); res.Err == nil || !strings.Contains(res.Err.Error(), `token id "x" exists already`) {
		t.Errorf("%+v", res)
	}
	full := &Table{}
	for i := range MaxBindings {
		full.bindings = append(full.bindings, Binding{Identity: "user:" + strconv.Itoa(10*MaxBindings+i), Role: "checker", Scope: Everywhere})
	}
	set := func(b Binding) Result {
		_, res := full.Apply(&raftlogv1.ChangeSecurity{Change: &raftlogv1.ChangeSecurity_SetBinding{SetBinding: EncodeBinding(&b)}})
		return res
	}
	if res := set(Binding{Identity: "user:x", Role: "checker"}); res.Err == nil || !strings.Contains(res.Err.Error(), "at most 10000") {
		t.Errorf("%+v", res)
	}
	if res := set(full.bindings[5]); res.Err != nil || res.Changed {
		t.Errorf("the same again: %+v", res)
	}
}

// FuzzDecode: what can be read is written the same way.
func FuzzDecode(f *testing.F) {
	table := mustTable(f, Binding{Identity: "client:ci", Role: "checker"}, Binding{Identity: "user:*", Permissions: []string{"check"}})
	table.revision = 3
	b, _ := proto.Marshal(table.Encode())
	f.Add(b)
	f.Fuzz(func(t *testing.T, data []byte) {
		var s raftlogv1.Security
		if proto.Unmarshal(data, &s) != nil {
			return
		}
		a, err := Decode(&s)
		if err != nil {
			return
		}
		if b, err := Decode(a.Encode()); err != nil || !proto.Equal(a.Encode(), b.Encode()) {
			t.Errorf("%v: %v", err, &s)
		}
	})
}
