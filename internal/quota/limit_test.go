package quota

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestCheckName(t *testing.T) {
	for _, tc := range []struct{ name, want string }{
		{"web", ""},
		{"A-z_0.9", ""},
		{strings.Repeat("x", MaxNameLen), ""},
		{"", "f: is empty"},
		{strings.Repeat("x", MaxNameLen+1), "f: is 129 bytes; at most 128"},
		{"a b", `f: "a b" has ' ' at byte 1`},
		{"a/b", `f: "a/b" has '/' at byte 1`},
		{"zürich", `f: "zürich" has 'ü' at byte 1`},
		{"日本", `f: "日本" has '日' at byte 0`},
		{"a\xffb", `f: "a\xffb" has '�' at byte 1`},
		{"a\n", `f: "a\n" has '\n' at byte 1`},
	} {
		switch err := CheckName("f", tc.name); {
		case tc.want == "" && err != nil:
			t.Errorf("CheckName(%q) = %v", tc.name, err)
		case tc.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tc.want)):
			t.Errorf("CheckName(%q) = %v, want %s...", tc.name, err, tc.want)
		}
	}
}

func TestParseLimitName(t *testing.T) {
	n, err := ParseLimitName("web/per_client")
	if err != nil || n != (LimitName{"web", "per_client"}) || n.String() != "web/per_client" {
		t.Errorf("got %v, %v", n, err)
	}
	for in, want := range map[string]string{"web": "namespace/limit", "/x": "namespace", "x/": "limit: is empty", "a/b/c": "'/'"} {
		if _, err := ParseLimitName(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseLimitName(%q) = %v, want an error with %q", in, err, want)
		}
	}
}

func TestCeiling(t *testing.T) {
	for _, c := range []Ceiling{Soft, Hard} {
		if got, err := ParseCeiling(c.String()); err != nil || got != c {
			t.Errorf("ParseCeiling(%q) = %v, %v", c, got, err)
		}
	}
	if _, err := ParseCeiling("medium"); err == nil {
		t.Error("ParseCeiling(medium): no error")
	}
}

func good() Limit {
	return Limit{LimitName: LimitName{"web", "per_client"}, Rate: Rate{10, time.Second}, Burst: 20}
}

func TestLimitValidate(t *testing.T) {
	for _, tc := range []struct {
		change func(*Limit)
		want   string // part of the error; "" means no error
	}{
		{func(*Limit) {}, ""},
		{func(l *Limit) { l.Burst = 0 }, ""},
		{func(l *Limit) { l.Burst = MaxTokens }, ""},
		{func(l *Limit) { l.Rate.Tokens = 0 }, ""},
		{func(l *Limit) { l.Rate.Tokens = MaxTokens }, ""},
		{func(l *Limit) { l.Namespace = "" }, "namespace: is empty"},
		{func(l *Limit) { l.LimitName.Limit = "a b" }, `limit: "a b"`},
		{func(l *Limit) { l.Burst = -1 }, "burst: -1"},
		{func(l *Limit) { l.Burst = MaxTokens + 1 }, "burst: 4398046511105"},
		{func(l *Limit) { l.Rate.Tokens = -1 }, "rate: -1"},
		{func(l *Limit) { l.Rate.Per = 0 }, "rate: 10 per 0s"},
		{func(l *Limit) { l.Rate = Rate{MaxTokens, time.Millisecond} }, "at most 4398046511104/s"},
		{func(l *Limit) { l.Burst, l.Rate.Tokens = -1, -1 }, "burst: -1; must be 0 to 4398046511104\nrate: -1"},
	} {
		l := good()
		tc.change(&l)
		switch err := l.Validate(); {
		case tc.want == "" && err != nil:
			t.Errorf("%+v: %v", l, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%+v: %v, want an error with %q", l, err, tc.want)
		}
	}
}

func TestLimits(t *testing.T) {
	b, a := good(), good()
	a.Namespace = "api"
	list := []Limit{b, a}
	s, err := NewLimits(7, list)
	if err != nil {
		t.Fatal(err)
	}
	list[0].Burst = 999 // the set has its own copy
	if got := s.All(); s.Version != 7 || !slices.EqualFunc(got, []Limit{a, b}, func(x, y Limit) bool { return x.Equal(&y) }) {
		t.Errorf("version %d holds %v, want both, sorted", s.Version, got)
	}
	if l, ok := s.Find(b.LimitName); !ok || !l.Equal(&b) {
		t.Errorf("Find = %v, %v", l, ok)
	}
	if _, ok := s.Find(LimitName{"web", "nobody"}); ok {
		t.Error("found a limit that is not there")
	}
	var none *Limits
	if _, ok := none.Find(a.LimitName); ok || none.All() != nil {
		t.Error("no limits have a limit")
	}
}

func TestLimitsRefuses(t *testing.T) {
	bad := good()
	bad.Burst = -1
	for want, list := range map[string][]Limit{
		"is defined twice":             {good(), good()},
		"limit web/per_client: burst:": {bad},
		"100001; at most 100000":       make([]Limit, MaxLimits+1),
	} {
		if s, err := NewLimits(1, list); err == nil || s != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("NewLimits = %v, %v; want an error with %q", s, err, want)
		}
	}
}

func TestKey(t *testing.T) {
	k := func(ns, l, key string) Key { return Key{LimitName{ns, l}, key} }
	sorted := []Key{k("a", "a", "a"), k("a", "a", "b"), k("a", "b", "a"), k("b", "a", "a")}
	for i, x := range sorted {
		for j, y := range sorted {
			if got, want := x.Compare(y), min(1, max(-1, i-j)); got != want {
				t.Errorf("%v against %v = %d, want %d", x, y, got, want)
			}
		}
	}
	if got := sorted[1].String(); got != "a/a/b" {
		t.Errorf("String = %q", got)
	}
}

func TestWhy(t *testing.T) {
	seen := map[string]bool{WhyUnknown.String(): true}
	for _, w := range Whys() {
		if s := w.String(); seen[s] {
			t.Errorf("%d is called %q like another", w, s)
		}
		seen[w.String()] = true
	}
	if len(Whys()) != int(WhyFailover) || Why(99).String() != "unknown" {
		t.Errorf("%d reasons, want %d; an unknown one is %q", len(Whys()), WhyFailover, Why(99))
	}
}
