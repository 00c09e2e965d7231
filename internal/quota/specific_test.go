package quota

import (
	"strings"
	"testing"
	"time"
)

func TestMatchMostSpecific(t *testing.T) {
	var list []Limit
	add := func(name, path string, methods ...string) {
		list = append(list, Limit{LimitName: LimitName{"web", name}, Rate: Rate{1, time.Second}, Burst: 1, Match: &Match{Methods: methods, Path: path}})
	}
	add("a_everything", "/**")
	add("b_product", "/product/*")
	add("c_product_read", "/product/*", "GET")
	add("d_sale", "/product/sale")
	add("e_item", "/product/item-*")
	add("f_item_json", "/product/item-*.json")
	add("g_price", "/product/*/price")
	add("h_below", "/product/**")
	add("i_price_anywhere", "/**/price")
	add("j_same", "/twins/*")
	add("k_same", "/twins/*")
	set, err := NewLimits(1, list)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ method, path, want string }{
		{"GET", "/", "a_everything"},
		{"PUT", "/product/7", "b_product"},
		{"GET", "/product/7", "c_product_read"},
		{"GET", "/product/sale", "d_sale"},
		{"GET", "/product/item-7", "e_item"},
		{"GET", "/product/item-7.json", "f_item_json"},
		{"GET", "/product/7/price", "g_price"},
		{"GET", "/product/7/name", "h_below"},
		{"GET", "/product", "h_below"},
		{"GET", "/service/price", "i_price_anywhere"},
		{"GET", "/twins/1", "j_same"},
	} {
		if got, ok := set.Match("web", tc.method, tc.path); !ok || got.LimitName.Limit != tc.want {
			t.Errorf("%s %s: %v, want %s", tc.method, tc.path, got, tc.want)
		}
	}
	if got, ok := set.Match("other", "GET", "/product/7"); ok {
		t.Errorf("another namespace: %v", got)
	}
	if got, ok := (*Limits)(nil).Match("web", "GET", "/"); ok {
		t.Errorf("no limits: %v", got)
	}
}

// simplePath and simpleSegment say what matchPath does, by trying everything.
func simplePath(pattern, path []string) bool {
	switch {
	case len(pattern) == 0:
		return len(path) == 0
	case pattern[0] == "**":
		return simplePath(pattern[1:], path) || len(path) > 0 && simplePath(pattern, path[1:])
	case len(path) == 0:
		return false
	case pattern[0] == "*" && path[0] == "":
		return false
	}
	return simpleSegment(pattern[0], path[0]) && simplePath(pattern[1:], path[1:])
}

func simpleSegment(pattern, s string) bool {
	switch {
	case pattern == "":
		return s == ""
	case pattern[0] == '*':
		return simpleSegment(pattern[1:], s) || s != "" && simpleSegment(pattern, s[1:])
	}
	return s != "" && s[0] == pattern[0] && simpleSegment(pattern[1:], s[1:])
}

// FuzzMatchPath compares with the simple form, on short strings: that one takes
// exponential time.
func FuzzMatchPath(f *testing.F) {
	for _, seed := range [][2]string{
		{"/**/a/**/b", "/a/b/a/a/b"},
		{"/a*b*c/**", "/aXbYbc/d/e"},
		{"/*", "/"},
		{"/**", "/"},
		{"/a//b", "/a//b"},
		{"/**/*/a", "/a/a"},
		{"/a/**/**", "/a"},
		{"/a**/b", "/ac/b"},
		{"/**/**a", "/b/ca"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		if len(pattern) > 12 || len(path) > 14 || !strings.HasPrefix(pattern, "/") || !strings.HasPrefix(path, "/") {
			return
		}
		want := simplePath(strings.Split(pattern[1:], "/"), strings.Split(path[1:], "/"))
		if got := matchPath(pattern, path); got != want {
			t.Errorf("%q on %q: %v, want %v", pattern, path, got, want)
		}
	})
}
