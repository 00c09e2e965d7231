package account

import (
	"slices"
	"testing"
)

// TestWords pins the bytes of placements, which choose ranges, and of words, from which listings
// continue at the next page.
func TestWords(t *testing.T) {
	for _, tc := range []struct {
		id              ID
		word, placement string
	}{
		{ID{}, "~~~~~", "~~~~~"},
		{ID{"cv", "project:infra", "user:a", "ci", "a", "builds"}, "cv~project:infra~user:a~ci~a~builds", "cv~project:infra~user:a~ci~a~builds"},
		{ID{"cv", "project:infra", "", "", "pool", "builds"}, "cv~project:infra~~~pool~builds", "cv~project:infra~~~pool~builds"},
		{ID{"cv", "project:infra", "", "team|ci", "a", "builds"}, "cv~project:infra~~team|ci~a~builds", "cv~project:infra~~team|ci~a~builds"},
		{ID{"cv", "project:infra", "user:a", "@team|ci", "a", "builds"}, "cv~project:infra~user:a~@team|ci~a~builds", "cv~project:infra~@team"},
		{ID{"cv", "project:infra", "", "@", "a", "builds"}, "cv~project:infra~~@~a~builds", "cv~project:infra~@"},
	} {
		if got := tc.id.Word(); got != tc.word {
			t.Errorf("%+v is %q, want %q", tc.id, got, tc.word)
		}
		if got, ok := ParseWord(tc.word); got != tc.id || !ok {
			t.Errorf("%q is %+v, %v; want %+v", tc.word, got, ok, tc.id)
		}
		if got := tc.id.Placement(); got != tc.placement {
			t.Errorf("%+v is placed by %q, want %q", tc.id, got, tc.placement)
		}
	}
	for _, bad := range []string{"", "a", "a~b~c~d~e", "a~b~c~d~e~f~g"} {
		if id, ok := ParseWord(bad); ok {
			t.Errorf("%q is %+v; it has not six parts", bad, id)
		}
	}
}

// TestCompare checks that ids sort by each of their parts, from the left.
func TestCompare(t *testing.T) {
	sorted := []ID{
		{},
		{Resource: "a"},
		{Name: "a"},
		{Name: "a", Resource: "b"},
		{Name: "ab"},
		{Namespace: "a"},
		{Identity: "a"},
		{Realm: "a"},
		{App: "a"},
		{App: "a", Realm: "a"},
		{App: "a!"}, // as one word it would sort before "a~"
	}
	for i, a := range sorted {
		for j, b := range sorted {
			if got := a.Compare(b); got < 0 != (i < j) || got > 0 != (i > j) {
				t.Errorf("%+v to %+v: %d", a, b, got)
			}
		}
	}
	keys := []PolicyKey{{}, {Resource: "a"}, {Name: "a"}, {Name: "a", Resource: "b"}, {Namespace: "a"}}
	if !slices.IsSortedFunc(keys, PolicyKey.Compare) || keys[1].Compare(keys[1]) != 0 {
		t.Errorf("not sorted: %+v", keys)
	}
}
