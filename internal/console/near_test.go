package console

import (
	"fmt"
	"strings"
	"testing"
)

// bigFile returns a file of two large namespaces, as the API writes it.
func bigFile(limits int) string {
	var b strings.Builder
	b.WriteString("version: 1\nglobal_default: {rate: 9/s, burst: 9, ceiling: soft}\nnamespaces:\n")
	for _, ns := range []string{"api", "web"} {
		fmt.Fprintf(&b, "  %s:\n    default: {rate: 1/s, burst: 1, ceiling: soft}\n    limits:\n", ns)
		for i := range limits {
			parent := ""
			if i%10 > 0 && i > 10 {
				parent = fmt.Sprintf(", parent: l%05d", i-i%10)
			}
			if i%10 == 0 && i > 100 {
				parent = ", parent: l00000"
			}
			fmt.Fprintf(&b, "      l%05d: {rate: 9/s, burst: 9, ceiling: soft%s}\n", i, parent)
		}
		fmt.Fprintf(&b, "      long:\n        rate: 5/s\n        parent: l00070\n")
	}
	return b.String()
}

// TestNear checks that in a large file only what one limit can depend on is parsed: its parents,
// its children, and the namespace's default. A small file is parsed whole.
func TestNear(t *testing.T) {
	const head = "version: 1\nnamespaces:\n  web:\n    default: {rate: 1/s, burst: 1, ceiling: soft}\n    limits:\n"
	one := func(n, parent string) string {
		if parent != "" {
			parent = ", parent: " + parent
		}
		return "      " + n + ": {rate: 9/s, burst: 9, ceiling: soft" + parent + "}\n"
	}
	big := bigFile(5000)
	for limit, want := range map[string]string{
		"l04321": head + one("l00000", "") + one("l04320", "l00000") + one("l04321", "l04320"),
		"long":   head + one("l00070", "") + "      long:\n        rate: 5/s\n        parent: l00070\n",
		"new":    strings.TrimSuffix(head, "    limits:\n"),
	} {
		if got := near(big, "web", limit, ""); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", limit, got, want)
		}
	}
	if got := near(big, "web", "l00070", ""); strings.Count(got, "parent: l00070") != 10 || strings.Count(got, "\n") != 5+13 {
		t.Errorf("children:\n%s", got)
	}
	if got, want := near(big, "web", "new", "new: {rate: 1/s, parent: l00012}\nl00005: {rate: 1/s}\n"), head+one("l00005", "")+one("l00010", "")+one("l00012", "l00010"); got != want {
		t.Errorf("what the text names:\n%s\nwant\n%s", got, want)
	}
	if got := near(big, "web", "", ""); strings.Contains(got, "api:") || strings.Count(got, "\n") < 5000 {
		t.Errorf("a namespace: %d bytes", len(got))
	}
	if got := near(big, "other", "x", ""); got != "version: 1\nnamespaces: {}\n" {
		t.Errorf("a new namespace: %q", got)
	}
	small := bigFile(100)
	for _, whole := range [][3]string{{small, "web", "l00001"}, {big, "", ""}, {big, globalNamespace, defaultLimit}} {
		if got := near(whole[0], whole[1], whole[2], ""); got != whole[0] {
			t.Errorf("%v: %d bytes of %d", whole[1:], len(got), len(whole[0]))
		}
	}
	looked := cut(near(big, "web", "l04321", ""), "web", "l04321")
	if line, ok := looked.line(8, "l04321: {rate: never}\n"); !ok || line != 1 || !strings.Contains(looked.with("l04321: {rate: never}\n"), "      l04321: {rate: never}\n") {
		t.Errorf("the line of a fault: %d, %v", line, ok)
	}
}
