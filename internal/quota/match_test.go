package quota

import (
	"strings"
	"testing"
	"time"
)

func TestMatchPath(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"/product/*", "/product/7", true},
		{"/product/*", "/product/7/", true},
		{"/product/*", "/product/", false},
		{"/product/*", "/product", false},
		{"/product/*", "/product/7/price", false},
		{"/product/*", "/products/7", false},
		{"/product/*", "/product/7?a=/b", true},
		{"/product/item-*.json", "/product/item-7.json", true},
		{"/product/item-*.json", "/product/item-7.xml", false},
		{"/a*b*c/d", "/aXbYbc/d", true},
		{"/**/product/*", "/v1/organizations/o7/product/7", true},
		{"/**/product/*", "/product/7", true},
		{"/**/product/*", "/product/product", true},
		{"/**", "/", true},
		{"/**", "/a/b", true},
		{"/a/**", "/a", true},
		{"/a/**", "/ab", false},
		{"/a/**/b/**/c", "/a/x/b/b/y/c", true},
		{"/a/**/b/**/c", "/a/x/b/b/y/d", false},
		{"/", "/", true},
		{"/", "/a", false},
		{"/a", "/A", false},
	} {
		m := Match{Path: c.pattern}
		if got := m.Matches("GET", c.path); got != c.want {
			t.Errorf("%s on %s: %v, want %v", c.pattern, c.path, got, c.want)
		}
	}
	m := Match{Methods: []string{"GET", "PUT"}, Path: "/**"}
	if !m.Matches("put", "/x") || m.Matches("POST", "/x") {
		t.Error("methods: PUT is meant, POST is not")
	}
}

// TestMatchPathIsQuick: patterns and paths are untrusted input.
func TestMatchPathIsQuick(t *testing.T) {
	start := time.Now()
	if matchPath(strings.Repeat("/**/a", 200), strings.Repeat("/a", 500)+"/b") || matchSegment("/"+strings.Repeat("*a", 500), "/"+strings.Repeat("a", 1000)+"b") {
		t.Error("a path that ends otherwise matches")
	}
	if d := time.Since(start); d > time.Second {
		t.Errorf("took %v", d)
	}
}

func TestLimitsHTTP(t *testing.T) {
	limit := func(ns, name, path string, methods ...string) Limit {
		return Limit{LimitName: LimitName{ns, name}, Rate: Rate{1, time.Second}, Burst: 1, Match: &Match{Methods: methods, Path: path}}
	}
	set, err := NewLimits(1, []Limit{
		limit("slas", "put-product", "/product/*", "PUT"), limit("slas", "get-product", "/product/*", "GET"),
		limit("slas", "all", "/**"), limit("other", "x", "/**"),
	})
	if err != nil {
		t.Fatal(err)
	}
	got, any := set.HTTP(nil, HTTPNamespace, "GET", "/product/7")
	if !any || len(got) != 2 || got[0].LimitName.Limit != "all" || got[1].LimitName.Limit != "get-product" {
		t.Errorf("%v %v", got, any)
	}
	if got, any = set.HTTP(nil, "nothing", "GET", "/"); any || len(got) > 0 {
		t.Errorf("a namespace without: %v %v", got, any)
	}
	var none *Limits
	if _, any = none.HTTP(nil, "slas", "GET", "/"); any {
		t.Error("no limits at all match nothing")
	}
}

// TestRepeatedSegments: each pattern is tried once, however often a path repeats the segment after
// its **.
func TestRepeatedSegments(t *testing.T) {
	set, err := NewLimits(1, []Limit{
		{LimitName: LimitName{"web", "a"}, Rate: Rate{1, time.Second}, Burst: 1, Match: &Match{Path: "/**/a/**"}},
		{LimitName: LimitName{"web", "b"}, Rate: Rate{1, time.Second}, Burst: 1, Match: &Match{Path: "/**/a/b"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := set.matches["web"].find(nil, "GET", strings.Repeat("/a", 4096)); len(got) != 1 {
		t.Errorf("%d limits are found; want 1", len(got))
	}
	path := "/product/a/7"
	var room [8]*Limit
	if n := testing.AllocsPerRun(100, func() { set.HTTP(room[:0], "web", "GET", path) }); n > 0 {
		t.Errorf("a look-up allocates %v times", n)
	}
}
