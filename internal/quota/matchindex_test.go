package quota

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// matchers returns limits of one namespace with these "METHOD,METHOD pattern", in order.
func matchers(tb testing.TB, rules ...string) *Limits {
	tb.Helper()
	var list []Limit
	for i, r := range rules {
		methods, path, _ := strings.Cut(r, " ")
		m := &Match{Path: path}
		if methods != "" {
			m.Methods = strings.Split(methods, ",")
		}
		list = append(list, Limit{
			LimitName: LimitName{HTTPNamespace, fmt.Sprintf("l%05d", i)}, Rate: Rate{1, time.Second}, Burst: 1, Match: m,
		})
	}
	s, err := NewLimits(1, list)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// scan returns the result of HTTP, by trying every limit.
func scan(s *Limits, method, path string) (out []*Limit) {
	for i := range s.list {
		if l := &s.list[i]; l.Match.Matches(method, path) {
			out = append(out, l)
		}
	}
	return out
}

// TestHTTPIndex: the tree finds what trying every limit finds.
func TestHTTPIndex(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	segments := []string{"/a", "/b", "/a*", "/*b", "/*", "/**", "/a*b", "/***", "/"}
	paths := []string{"/a", "/b", "/ab", "/axb", "/", "/c"}
	draw := func(from []string, n int) string {
		var b strings.Builder
		for range 1 + rng.IntN(n) {
			b.WriteString(from[rng.IntN(len(from))])
		}
		return b.String()
	}
	found := 0
	for range 300 {
		var rules []string
		for range 1 + rng.IntN(12) {
			rules = append(rules, []string{"", "GET", "GET,PUT"}[rng.IntN(3)]+" "+draw(segments, 5))
		}
		s := matchers(t, rules...)
		for range 50 {
			method, path := []string{"GET", "put", "POST"}[rng.IntN(3)], draw(paths, 6)
			got, _ := s.HTTP(nil, HTTPNamespace, method, path)
			if want := scan(s, method, path); !slices.Equal(got, want) {
				t.Fatalf("%s %s of %q: found %v, want %v", method, path, rules, names(got), names(want))
			}
			found += len(got)
		}
	}
	if found < 1000 {
		t.Errorf("only %d matches: the draw is too wide", found)
	}
}

func names(list []*Limit) (out []string) {
	for _, l := range list {
		out = append(out, l.LimitName.Limit)
	}
	return out
}

// FuzzHTTPIndex is TestHTTPIndex for any path and patterns.
func FuzzHTTPIndex(f *testing.F) {
	f.Add("GET", "/v1/a/b?x=1", "/v1/**/b", "/*/a/b", "/v1/a/")
	f.Add("get", "/a//b/", "/a/**", "/a//b", "/**/b/**/b")
	f.Add("", "no slash", "/**", "/*", "/")
	f.Fuzz(func(t *testing.T, method, path, a, b, c string) {
		var list []Limit
		for i, p := range []string{a, b, c} {
			l := Limit{LimitName: LimitName{HTTPNamespace, fmt.Sprint("l", i)}, Rate: Rate{1, time.Second}, Burst: 1, Match: &Match{Path: p}}
			if l.Validate() == nil {
				list = append(list, l)
			}
		}
		s, err := NewLimits(1, list)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := s.HTTP(nil, HTTPNamespace, method, path)
		if want := scan(s, method, path); !slices.Equal(got, want) {
			t.Errorf("%s %q of %q, %q, %q: found %v, want %v", method, path, a, b, c, names(got), names(want))
		}
	})
}

// TestHTTPIndexAllocates checks that a lookup allocates nothing if the caller provides the memory.
func TestHTTPIndexAllocates(t *testing.T) {
	s := matchers(t, manyRules(100)...)
	var room [8]*Limit
	if n := testing.AllocsPerRun(100, func() { s.HTTP(room[:0], HTTPNamespace, "GET", "/v1/service42/items/7") }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// manyRules are rules like those of a gateway: services with a collection, items, and one rule for all paths below.
func manyRules(n int) (rules []string) {
	for i := range n {
		rules = append(rules, fmt.Sprintf([]string{
			"GET /v1/service%d/items/*", "POST,PUT /v1/service%d/items", " /v1/service%d/**", " /**/service%d/export",
		}[i%4], i/4*4+42%4))
	}
	return rules
}

func BenchmarkHTTP(b *testing.B) {
	for _, n := range []int{1, 100, 1000} {
		s := matchers(b, manyRules(n)...)
		path := fmt.Sprintf("/v1/service%d/items/7", n/8*4+2)
		b.Run(fmt.Sprintf("rules=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			var room [8]*Limit
			for b.Loop() {
				s.HTTP(room[:0], HTTPNamespace, "GET", path)
			}
		})
		b.Run(fmt.Sprintf("scan/rules=%d", n), func(b *testing.B) {
			for b.Loop() {
				scan(s, "GET", path)
			}
		})
	}
}
