package descriptor

import (
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/quota"
)

func TestNames(t *testing.T) {
	for _, tc := range []struct {
		name  string
		steps []Step
	}{
		{"remote_address", []Step{{"remote_address", ""}}},
		{"path.remote_address", []Step{{"path", ""}, {"remote_address", ""}}},
		{"database--users", []Step{{"database", "users"}}},
		{"remote_address--10..0..0..1", []Step{{"remote_address", "10.0.0.1"}}},
		{"path---.2fapi-.2f--", []Step{{"path", "/api/*"}}},
		{"k----", []Step{{"k", "*"}}},
		{"k--a--b--.next", []Step{{"k", "a*b*"}, {"next", ""}}},
		{"x-api-key--slow-path", []Step{{"x-api-key", "slow-path"}}},
		{"a...b", []Step{{"a.", ""}, {"b", ""}}},
		{"a.-.2eb", []Step{{"a", ""}, {".b", ""}}},
		{"k----..x", []Step{{"k", "*.x"}}},
		{"k--a-.2d", []Step{{"k", "a-"}}},
		{"k--a-.2d-.2db", []Step{{"k", "a--b"}}},
		{"a-.2a", []Step{{"a*", ""}}},
		{"k--z-.c3-.bcrich", []Step{{"k", "zürich"}}},
	} {
		if got, err := NameOf(tc.steps); got != tc.name || err != nil {
			t.Errorf("NameOf(%q) = %q, %v; want %q", tc.steps, got, err, tc.name)
		}
		if got, ok := Steps(tc.name); !ok || !slices.Equal(got, tc.steps) {
			t.Errorf("Steps(%q) = %q, %v; want %q", tc.name, got, ok, tc.steps)
		}
	}
	for _, name := range []string{"", ".", "a.", ".a", "--a", "a--b-", "-a", "a-.2F", "a-.61", "a-.2", "a-", "k--", "@default"} {
		if got, ok := Steps(name); ok {
			t.Errorf("Steps(%q) = %q, but another name is that path's", name, got)
		}
	}
	for _, steps := range [][]Step{nil, {{"", "v"}}, {{strings.Repeat("k", quota.MaxNameLen+1), ""}}, make([]Step, MaxEntries+1)} {
		if got, err := NameOf(steps); err == nil {
			t.Errorf("NameOf(%d steps) = %q, without an error", len(steps), got)
		}
	}
}

// FuzzNames holds names and paths to be one for one, whatever keys and values are.
func FuzzNames(f *testing.F) {
	f.Add("database", "users", "to_number", "", "database--users.to_number")
	f.Add("a.", "-", ".b", "*..--", "a-..--")
	f.Fuzz(func(t *testing.T, k1, v1, k2, v2, name string) {
		if steps, ok := Steps(name); ok {
			if again, err := NameOf(steps); err != nil || again != name {
				t.Fatalf("Steps(%q) = %q, of which the name is %q, %v", name, steps, again, err)
			}
		}
		steps := []Step{{k1, v1}, {k2, v2}}
		name, err := NameOf(steps)
		if err != nil {
			return
		}
		if err := quota.CheckName("limit", name); err != nil {
			t.Fatalf("NameOf(%q): %v", steps, err)
		}
		if got, ok := Steps(name); !ok || !slices.Equal(got, steps) {
			t.Fatalf("%q is %q, and that %q, %v", steps, name, got, ok)
		}
	})
}

// rulesOf makes rules out of lines such as "database=users, to_number".
func rulesOf(t testing.TB, lines ...string) *Tree {
	t.Helper()
	tree := &Tree{}
	for _, line := range lines {
		r := &Rule{Name: line}
		for word := range strings.SplitSeq(line, ", ") {
			k, v, _ := strings.Cut(word, "=")
			r.Steps = append(r.Steps, Step{k, v})
		}
		if err := tree.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	return tree
}

func entriesOf(line string) (out []Entry) {
	for word := range strings.SplitSeq(line, ", ") {
		k, v, _ := strings.Cut(word, "=")
		out = append(out, Entry{k, v})
	}
	return out
}

func TestMatch(t *testing.T) {
	tree := rulesOf(t,
		"database=users", "database=default",
		"message_type=marketing, to_number", "to_number",
		"ip", "ip=50.0.0.5", "ip=10.*", "ip=10.0.*",
		"path=/a/*/users/*", "path",
		"a=x, b=y", "a, b", "a, b, c",
		"a_b=c", "any=*",
	)
	for request, want := range map[string]string{
		"database=users":                      "database=users",
		"database=other":                      "",
		"database=":                           "",
		"to_number=1":                         "to_number",
		"message_type=marketing, to_number=1": "message_type=marketing, to_number",
		"message_type=news, to_number=1":      "",
		"message_type=marketing":              "", // depth
		"to_number=1, message_type=marketing": "",
		"ip=50.0.0.5":                         "ip=50.0.0.5",
		"ip=50.0.0.6":                         "ip",
		"ip=":                                 "ip",
		"ip=10.0.0.1":                         "ip=10.*", // the first that fits
		"ip=10.0.*":                           "ip=10.0.*",
		"path=/a/7/users/9":                   "path=/a/*/users/*",
		"path=/a/7/users":                     "path",
		"path=/a/users/":                      "path",
		"a=x, b=y":                            "a=x, b=y",
		"a=x, b=z":                            "", // what was chosen is not taken back
		"a=z, b=z":                            "a, b",
		"a=z, b=z, c=":                        "a, b, c",
		"a=z":                                 "",
		"a=b_c":                               "", // not a_b=c
		"any=":                                "any=*",
		"any=thing":                           "any=*",
		"other=1":                             "",
		"to_number=1, to_number=1":            "",
		strings.Repeat("a=z, ", 20) + "b=1":   "",
	} {
		got := ""
		if r := tree.Match(entriesOf(request)); r != nil {
			got = r.Name
		}
		if got != want {
			t.Errorf("%s: matches %q, want %q", request, got, want)
		}
	}
	tree.Sort()
	if r := tree.Match(entriesOf("ip=10.0.0.1")); r == nil || r.Name != "ip=10.0.*" {
		t.Errorf("sorted, ip=10.0.0.1 matches %v, want the longest pattern", r)
	}
	if r := tree.Match(nil); r != nil {
		t.Errorf("nothing matches %v", r)
	}
	if err := tree.Add(&Rule{Steps: []Step{{"ip", "10.*"}}}); err == nil {
		t.Error("a path can be added twice")
	}
	if r := (*Tree)(nil).Match(entriesOf("a=b")); r != nil {
		t.Errorf("no tree matches %v", r)
	}
}

func TestPatterns(t *testing.T) {
	for _, tc := range []struct {
		pattern, s string
		want       bool
	}{
		{"*", "", true},
		{"a*", "a", true},
		{"a*", "b", false},
		{"*a", "ba", true},
		{"a*a", "a", false},
		{"a*a", "aa", true},
		{"a*b*c", "a-b-b-c", true},
		{"a*b*c", "ac", false},
		{"a**c", "ac", true},
		{"ab*bc", "abc", false},
		{"*ab*ab*", "ab", false},
		{"*ab*ab*", "xababx", true},
	} {
		if got := newPattern(tc.pattern).matches(tc.s); got != tc.want {
			t.Errorf("%q matches %q: %v", tc.pattern, tc.s, got)
		}
	}
}

// slowMatch is matching as it would be written down: every pattern by trying
// all splits.
func slowMatch(p, s string) bool {
	if p == "" {
		return s == ""
	}
	if p[0] == '*' {
		return slowMatch(p[1:], s) || s != "" && slowMatch(p, s[1:])
	}
	return s != "" && s[0] == p[0] && slowMatch(p[1:], s[1:])
}

// FuzzMatch compares the tree with going through all rules.
func FuzzMatch(f *testing.F) {
	f.Add("a=x\na\na=x*\na=x, b\na, b=*y*", "a=xy")
	f.Add("p=/a/*/b\np=/*\np", "p=/a//b")
	f.Add("a=*a*a*", "a=aaa, b=")
	f.Fuzz(func(t *testing.T, lines, asked string) {
		if len(lines) > 300 || len(asked) > 60 || strings.Count(lines, "*") > 12 {
			return
		}
		tree := &Tree{}
		for line := range strings.SplitSeq(lines, "\n") {
			_ = tree.Add(&Rule{Name: line, Steps: stepsOf(line)})
		}
		entries := entriesOf(asked)
		got := tree.Match(entries)
		if want := slowTree(tree.Rules(), entries); got != want {
			t.Fatalf("%q among %q is %v, want %v", asked, lines, got, want)
		}
		if got != nil {
			if key := got.Key(entries); key == "" || len(key) > quota.MaxKeyLen {
				t.Fatalf("key %q", key)
			}
		}
	})
}

func stepsOf(line string) (out []Step) {
	for _, e := range entriesOf(line) {
		out = append(out, Step(e))
	}
	return out
}

// slowTree narrows the rules down entry by entry.
func slowTree(rules []*Rule, entries []Entry) *Rule {
	for i, e := range entries {
		var best *Step
		rank := 3
		for _, r := range rules {
			if len(r.Steps) <= i || r.Steps[i].Key != e.Key {
				continue
			}
			s, is := r.Steps[i], 3
			switch {
			case s.Value == "":
				is = 2
			case s.Value == e.Value: // a pattern too
				is = 0
			case s.Pattern() && slowMatch(s.Value, e.Value):
				is = 1
			}
			if is < rank {
				best, rank = &s, is
			}
		}
		if best == nil {
			return nil
		}
		rules = slices.DeleteFunc(slices.Clone(rules), func(r *Rule) bool { return len(r.Steps) <= i || r.Steps[i] != *best })
	}
	for _, r := range rules {
		if len(r.Steps) == len(entries) {
			return r
		}
	}
	return nil
}

func TestKeys(t *testing.T) {
	long := strings.Repeat("ü", quota.MaxKeyLen)
	for _, tc := range []struct{ rule, request, key, full string }{
		{"database=users", "database=users", "*", "database=users"},
		{"ip", "ip=10.0.0.1", "10.0.0.1", "ip=10.0.0.1"},
		{"path", "path=/a/b", "/a/b", "path=%2Fa%2Fb"},
		{"path", "path=", "%", "path="},
		{"path", "path=%41", "%%41", "path=%2541"},
		{"a, b", "a=x/y, b=%", "x%2Fy/%25", "a=x%2Fy/b=%25"},
		{"a, b", "a=, b=", "/", "a=/b="},
		{"a, b=fix, c=p*", "a=1, b=fix, c=pp", "1/pp", "a=1/b=fix/c=pp"},
		{"a=b", "a=b", "*", "a=b"},
	} {
		r, entries := rulesOf(t, tc.rule).Rules()[0], entriesOf(tc.request)
		if key, full := r.Key(entries), r.FullKey(entries); key != tc.key || full != tc.full || FullKey(entries) != full {
			t.Errorf("%s under %s: %q and %q, want %q and %q", tc.request, tc.rule, key, full, tc.key, tc.full)
		}
	}
	shared := rulesOf(t, "file=a/*").Rules()[0]
	shared.Share = []bool{true}
	for _, request := range []string{"file=a/1", "file=a/2"} {
		if key, full := shared.Key(entriesOf(request)), shared.FullKey(entriesOf(request)); key != "a/*" || full != "file=a%2F*" {
			t.Errorf("%s: keys %q and %q, want the pattern", request, key, full)
		}
	}
	r := rulesOf(t, "ip").Rules()[0]
	one, other := r.Key([]Entry{{"ip", long + "1"}}), r.Key([]Entry{{"ip", long + "2"}})
	if len(one) > quota.MaxKeyLen || len(one) < quota.MaxKeyLen-4 || one == other || strings.ToValidUTF8(one, "") != one {
		t.Errorf("long values have the keys %q and %q", one, other)
	}
}

func TestNamespace(t *testing.T) {
	for domain, want := range map[string]string{"web": "web", "my domain": "my-domain", "": "-", "zürich": "z-rich", strings.Repeat("d", 200): strings.Repeat("d", quota.MaxNameLen)} {
		if got := Namespace(domain); got != want {
			t.Errorf("Namespace(%q) = %q, want %q", domain, got, want)
		}
	}
}
