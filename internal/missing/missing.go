// Package missing says in words that a limit is not there, and what was probably meant, for
// the errors of nodes and of the Go client. Its functions are pure, and their work and their
// words are bounded.
package missing

import (
	"fmt"
	"sort"
	"strings"

	"github.com/quorate/quorate/internal/nearest"
	"github.com/quorate/quorate/internal/quota"
)

// Bounds on the work and the words spent on a limit that is not there.
const (
	maxListed   = 10   // names in the text
	maxCompared = 1000 // names looked at for the nearest one
)

// Explain says that n is not there, what its namespace has, and what was
// probably meant. Its work does not grow with the number of limits.
func Explain(n quota.LimitName, limits *quota.Limits) string {
	all := limits.All()
	if len(all) == 0 {
		return fmt.Sprintf("%v does not exist: there are no limits at all; apply a limit file with \"quorate limits apply FILE\"", n)
	}
	names, more := inNamespace(all, n.Namespace)
	if len(names) == 0 {
		names, more = namespaces(all)
		return fmt.Sprintf("%v does not exist: there is no namespace %q;%s there are: %s", n, n.Namespace, DidYouMean(n.Namespace, names, ""), List(names, more))
	}
	return among(n, names, more)
}

// Within is Explain for whoever must not be told which other namespaces there are.
func Within(n quota.LimitName, limits *quota.Limits) string {
	names, more := inNamespace(limits.All(), n.Namespace)
	if len(names) == 0 {
		return fmt.Sprintf("%v does not exist: namespace %q has no limits; check its spelling, or apply some with \"quorate limits apply FILE\"", n, n.Namespace)
	}
	return among(n, names, more)
}

// among says that n is none of the names that its namespace has.
func among(n quota.LimitName, names []string, more bool) string {
	return fmt.Sprintf("%v does not exist;%s namespace %q has: %s", n, DidYouMean(n.Limit, names, n.Namespace+"/"), n.Namespace, List(names, more))
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

// List names what there is, the first few of many; more says that there are others besides.
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

// DidYouMean returns the nearest name behind prefix as a clause, or nothing if none is near.
func DidYouMean(got string, names []string, prefix string) string {
	if near := nearest.Word(got, names); near != "" {
		return fmt.Sprintf(" did you mean %q?", prefix+near)
	}
	return ""
}
