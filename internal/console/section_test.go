package console

import (
	"strings"
	"testing"
)

const sampleFile = `version: 1
global_default: {rate: 50/s, burst: 100, ceiling: soft}
namespaces:
  api:
    default: {rate: 100/s, burst: 200, ceiling: soft}
    limits:
      tenant: {rate: 1000/s, burst: 2000, ceiling: soft}
      "42":
        tiers:
          - {limit: 10, per: 1s}
          - {rate: 5/s, burst: 9}
        ceiling: soft
  web:
    limits:
      login: {rate: 5/m, burst: 5, ceiling: hard}
`

// TestCut checks that the editor shows exactly the requested part, that putting it back restores
// the file, and that new text goes where the parser expects it.
func TestCut(t *testing.T) {
	for _, tc := range []struct{ name, namespace, limit, want string }{
		{"file", "", "", sampleFile},
		{"global", "@global", "@default", "global_default: {rate: 50/s, burst: 100, ceiling: soft}\n"},
		{"default", "api", "@default", "default: {rate: 100/s, burst: 200, ceiling: soft}\n"},
		{"one line", "api", "tenant", "tenant: {rate: 1000/s, burst: 2000, ceiling: soft}\n"},
		{"several lines", "api", "42", "\"42\":\n  tiers:\n    - {limit: 10, per: 1s}\n    - {rate: 5/s, burst: 9}\n  ceiling: soft\n"},
		{"namespace", "web", "", "web:\n  limits:\n    login: {rate: 5/m, burst: 5, ceiling: hard}\n"},
		{"not of another namespace", "api", "login", ""},
	} {
		s := cut(sampleFile, tc.namespace, tc.limit)
		if got := s.text(); got != tc.want {
			t.Errorf("%s: %q; want %q", tc.name, got, tc.want)
		}
		if got := s.with(s.text()); tc.want != "" && got != sampleFile {
			t.Errorf("%s: put back it is\n%s", tc.name, got)
		}
	}
}

func TestCutNew(t *testing.T) {
	const rule = "new: {rate: 1/s}\n"
	for _, tc := range []struct{ name, file, namespace, limit, text, want string }{
		{"beside others", sampleFile, "api", "new", rule, "        ceiling: soft\n      new: {rate: 1/s}\n  web:\n"},
		{"the last", sampleFile, "web", "new", rule, "ceiling: hard}\n      new: {rate: 1/s}\n"},
		{"another namespace", sampleFile, "jobs", "new", rule, "ceiling: hard}\n  jobs:\n    limits:\n      new: {rate: 1/s}\n"},
		{"whose name is a number", sampleFile, "7", "new", rule, "  \"7\":\n    limits:\n      new: {rate: 1/s}\n"},
		{"an empty file", "version: 1\nnamespaces: {}\n", "web", "new", rule, "version: 1\nnamespaces:\n  web:\n    limits:\n      new: {rate: 1/s}\n"},
		{"no limits yet", "version: 1\nnamespaces:\n  web:\n    default: {rate: 1/s}\n", "web", "new", rule, "    default: {rate: 1/s}\n    limits:\n      new: {rate: 1/s}\n"},
		{"a default", sampleFile, "web", "@default", "default: {rate: 1/s}\n", "  web:\n    default: {rate: 1/s}\n    limits:\n"},
		{"the global one", "version: 1\nnamespaces: {}\n", "@global", "@default", "global_default: {rate: 1/s}\n", "version: 1\nglobal_default: {rate: 1/s}\n"},
		{"a whole namespace", sampleFile, "jobs", "", "jobs:\n  default: {rate: 1/s}\n", "ceiling: hard}\n  jobs:\n    default: {rate: 1/s}\n"},
		{"nothing", sampleFile, "jobs", "new", "", sampleFile},
	} {
		s := cut(tc.file, tc.namespace, tc.limit)
		got := s.with(tc.text)
		if !strings.Contains(got, tc.want) {
			t.Errorf("%s:\n%s\nwant %q in it", tc.name, got, tc.want)
		}
	}
}

// TestSectionLine checks that a fault appears at the line of the edited section, not of the file.
func TestSectionLine(t *testing.T) {
	s := cut(sampleFile, "api", "42")
	for of, want := range map[int]int{8: 1, 12: 5} {
		if got, ok := s.line(of, s.text()); !ok || got != want {
			t.Errorf("line %d is %d, %v; want %d", of, got, ok, want)
		}
	}
	for _, of := range []int{1, 7, 13} {
		if got, ok := s.line(of, s.text()); ok {
			t.Errorf("line %d is %d of it", of, got)
		}
	}
	s = cut(sampleFile, "jobs", "new")
	if got, ok := s.line(len(splitLines(sampleFile))+3, "new: {}\n"); !ok || got != 1 {
		t.Errorf("%d, %v", got, ok)
	}
}
