package asi

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestJoin(t *testing.T) {
	for _, c := range []struct {
		sections []string
		want     string
	}{
		{nil, ""},
		{[]string{""}, ""},
		{[]string{"", ""}, "|"},
		{[]string{"a", "", "b"}, "a||b"},
		{[]string{"project", "builder 7"}, "project|builder 7"},
		{[]string{"größe", "日本"}, "größe|日本"},
		{[]string{"a{b", "}"}, "a{b|}"},
		{[]string{"a|b"}, "{@=2M"},
		{[]string{"a|b", "c"}, "{@=2M|c"},
		{[]string{"{"}, "{HN"},
		{[]string{"{z"}, "{H[5"},
		{[]string{"~"}, "{IK"},
		{[]string{"\x00\x00\x00\x00"}, "{z"},
		{[]string{"a\nb"}, "{@1$H"},
		{[]string{"\xff"}, "{rr"},
		{[]string{"\u0085"}, "{_M%"},
		{[]string{"@team", "ci"}, "@team|ci"},
	} {
		got := Join(c.sections...)
		if got != c.want {
			t.Errorf("Join(%q) is %q; want %q", c.sections, got, c.want)
		}
		if back := Split(got); len(c.sections) > 0 && !slices.Equal(back, c.sections) {
			t.Errorf("Split(%q) is %q; want %q", got, back, c.sections)
		}
	}
}

func TestSplit(t *testing.T) {
	for id, want := range map[string][]string{
		"":          {""},
		"|":         {"", ""},
		"{":         {""}, // empty, encoded
		"{z":        {"\x00\x00\x00\x00"},
		"{z|{":      {"\x00\x00\x00\x00", ""},
		"{!":        {"{!"}, // half a byte
		"{zz!":      {"{zz!"},
		"{uuuuu":    {"{uuuuu"}, // beyond 32 bits
		"{!!!!!":    {"{!!!!!"}, // Join writes z
		"{@= 2M":    {"{@= 2M"}, // white space
		"{{@=2M":    {"{{@=2M"}, // double encoding does not exist
		"{@=2M|{~|": {"a|b", "{~", ""},
		"{ä":        {"{ä"},
		"a~b\n":     {"a~b\n"},
		"{87cUR":    {"Hell"}, // needed no encoding
	} {
		if got := Split(id); !slices.Equal(got, want) {
			t.Errorf("Split(%q) is %q; want %q", id, got, want)
		}
	}
}

// FuzzJoin checks that Split returns any joined sections, and that the identifier is valid for an
// account.
func FuzzJoin(f *testing.F) {
	f.Add("a", "b", "c")
	f.Add("{", "|", "~")
	f.Add("\x00\x00\x00\x00", "", "{z")
	f.Add("\xff\xfe", "\n", "ä")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		for _, sections := range [][]string{{a}, {a, b}, {a, b, c}, {c, "", a}} {
			id := Join(sections...)
			if got := Split(id); !slices.Equal(got, sections) {
				t.Errorf("Split(Join(%q)) is %q", sections, got)
			}
			if strings.Contains(id, "~") || !utf8.ValidString(id) || strings.IndexFunc(id, unicode.IsControl) >= 0 {
				t.Errorf("Join(%q) is %q", sections, id)
			}
			if got := strings.Count(id, "|"); got != len(sections)-1 {
				t.Errorf("Join(%q) has %d separators", sections, got)
			}
		}
	})
}

// FuzzSplit checks that the sections of any identifier, joined and split again, stay the same.
func FuzzSplit(f *testing.F) {
	for _, id := range []string{"", "a|b", "{z|{", "{!", "{@=2M|{uuuuu", "{87cUR|", "{\t"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		sections := Split(id)
		if want := strings.Count(id, "|") + 1; len(sections) != want {
			t.Errorf("Split(%q) has %d sections; want %d", id, len(sections), want)
		}
		if again := Split(Join(sections...)); !slices.Equal(again, sections) {
			t.Errorf("Split(%q) is %q, and joined and split again %q", id, sections, again)
		}
	})
}
