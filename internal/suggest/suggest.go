// Package suggest explains unknown limits and mistyped words in error messages: what exists, and
// what was probably meant. Its functions are pure, and their work and the length of their results are
// bounded.
package suggest

import (
	"fmt"
	"sort"
	"strings"

	"github.com/quorate/quorate/internal/quota"
)

// Bounds of the work and of the text about an unknown limit.
const (
	maxListed   = 10   // names in the text
	maxCompared = 1000 // names compared to find the nearest one
)

// Explain says that n is unknown, what its namespace contains, and what was probably meant. Its
// work does not grow with the number of limits.
func Explain(n quota.LimitName, limits *quota.Limits) string {
	all := limits.All()
	if len(all) == 0 {
		return fmt.Sprintf("unknown limit %v: there are no limits; apply a limit file with \"quorate limits apply FILE\"", n)
	}
	names, more := inNamespace(all, n.Namespace)
	if len(names) == 0 {
		names, more = namespaces(all)
		return fmt.Sprintf("unknown limit %v: unknown namespace %q;%s known: %s", n, n.Namespace, DidYouMean(n.Namespace, names, ""), List(names, more))
	}
	return among(n, names, more)
}

// Within is Explain for callers who must not learn the names of other namespaces.
func Within(n quota.LimitName, limits *quota.Limits) string {
	names, more := inNamespace(limits.All(), n.Namespace)
	if len(names) == 0 {
		return fmt.Sprintf("unknown limit %v: namespace %q has no limits; check its spelling, or apply some with \"quorate limits apply FILE\"", n, n.Namespace)
	}
	return among(n, names, more)
}

// among returns the error about n, which is not in names, the names in its namespace.
func among(n quota.LimitName, names []string, more bool) string {
	return fmt.Sprintf("unknown limit %v;%s namespace %q has: %s", n, DidYouMean(n.Limit, names, n.Namespace+"/"), n.Namespace, List(names, more))
}

func inNamespace(all []quota.Limit, ns string) (names []string, more bool) {
	i := sort.Search(len(all), func(i int) bool { return all[i].Namespace >= ns })
	for ; i < len(all) && all[i].Namespace == ns; i++ {
		if len(names) == maxCompared {
			return names, true
		}
		names = append(names, all[i].LimitName.Limit)
	}
	return names, false
}

func namespaces(all []quota.Limit) (names []string, more bool) {
	for i := 0; i < len(all); {
		if len(names) == maxCompared {
			return names, true
		}
		ns := all[i].Namespace
		names = append(names, ns)
		i += sort.Search(len(all)-i, func(j int) bool { return all[i+j].Namespace > ns })
	}
	return names, false
}

// List joins the first few names; more says that there are others besides names.
func List(names []string, more bool) string {
	if len(names) <= maxListed && !more {
		return strings.Join(names, ", ")
	}
	plus := ""
	if more {
		plus = "+"
	}
	return fmt.Sprintf("%s, ... (%d%s in all)", strings.Join(names[:maxListed], ", "), len(names), plus)
}

// DidYouMean returns the nearest name after prefix as a question, or "" if none is near.
func DidYouMean(got string, names []string, prefix string) string {
	if near := Word(got, names); near != "" {
		return fmt.Sprintf(" did you mean %q?", prefix+near)
	}
	return ""
}

// Word returns the word that s is most likely a misspelling of, or "" if none is close: at most two
// edits, and fewer than half of the letters.
func Word(s string, words []string) string {
	best, near := "", 3
	for _, w := range words {
		if len(s) > len(w)+2 {
			continue
		}
		if n := edits(s, w); n < near && 2*n < max(len(w), len(s)) {
			best, near = w, n
		}
	}
	return best
}

// edits returns the optimal string alignment distance (after Damerau, 1964) of a and b in bytes:
// the number of insertions, deletions, changes, and swaps of two neighbors.
func edits(a, b string) int {
	prev, row := make([]int, len(b)+1), make([]int, len(b)+1)
	older := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		older, prev, row = prev, row, older
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], older[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
