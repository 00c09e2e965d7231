package limits

import (
	"strings"
	"testing"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// TestColours checks that colours do not change the words.
func TestColours(t *testing.T) {
	changes := []*quoratev1.LimitChange{
		{Namespace: "web", Limit: "new", Kind: quoratev1.ChangeKind_CHANGE_KIND_ADDED, Fields: []*quoratev1.FieldChange{{Field: "rate", After: "10/s"}}},
		{Namespace: "web", Limit: "old", Kind: quoratev1.ChangeKind_CHANGE_KIND_REMOVED, Fields: []*quoratev1.FieldChange{{Field: "rate", Before: "10/s"}}},
		{Namespace: "web", Limit: "a", Kind: quoratev1.ChangeKind_CHANGE_KIND_CHANGED, Fields: []*quoratev1.FieldChange{{Field: "burst", Before: "1", After: "2\x1b[31m"}, {Field: "parent", After: "b"}}},
	}
	var plain, painted strings.Builder
	printChanges(&plain, false, changes)
	printChanges(&painted, true, changes)
	const want = `+ web/new
    rate  10/s
- web/old
    rate  10/s
~ web/a
    burst   1 -> "2\x1b[31m"
    parent  not set -> b
`
	if plain.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &plain, want)
	}
	bare := strings.NewReplacer("\x1b[31m", "", "\x1b[32m", "", "\x1b[33m", "", "\x1b[0m", "").Replace(painted.String())
	if bare != want || !strings.Contains(painted.String(), "\x1b[32m+ web/new\x1b[0m") {
		t.Errorf("painted: %q", painted.String())
	}
	var brief strings.Builder
	if printBriefly(&brief, false, changes[2:]); brief.String() != "~ web/a  burst 1 -> \"2\\x1b[31m\", parent not set -> b\n" {
		t.Errorf("%q", brief.String())
	}
}

func TestFieldText(t *testing.T) {
	for _, c := range [][3]string{
		{"lease", "90", "1m30s"},
		{"lease", "odd", "odd"},
		{"burst", "90", "90"},
		{"match", `{"methods":["GET","PUT"],"path":"/a b"}`, "{methods: [GET, PUT], path: /a b}"},
		{"tiers", `[{"kind":"bucket","burst":5,"calendar":"","timezone":""}]`, "[{kind: bucket, burst: 5}]"},
		{"tiers", `[{"kind"`, `[{"kind"`},
		{"parent", "", ""},
	} {
		if got := fieldText(c[0], c[1]); got != c[2] {
			t.Errorf("%s %s: %s, want %s", c[0], c[1], got, c[2])
		}
	}
}
