package api

import (
	"fmt"
	"net/http"
	"sort"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/internal/nearest"
	"github.com/quorate/quorate/internal/quota"
)

// Bounds on the work and the words spent on a limit that is not there.
const (
	maxListed   = 10   // names in the text
	maxCompared = 1000 // names looked at for the nearest one
)

// explainMissing says that n is not there, what its namespace has, and what was
// probably meant. Its work does not grow with the number of limits.
func explainMissing(n quota.LimitName, limits *quota.Limits) string {
	all := limits.All()
	if len(all) == 0 {
		return fmt.Sprintf("%v does not exist: there are no limits at all; apply a limit file with \"quorate limits apply FILE\"", n)
	}
	names, more := inNamespace(all, n.Namespace)
	if len(names) == 0 {
		names, more = namespaces(all)
		return fmt.Sprintf("%v does not exist: there is no namespace %q;%s there are: %s", n, n.Namespace, didYouMean(n.Namespace, names, ""), list(names, more))
	}
	return fmt.Sprintf("%v does not exist;%s namespace %q has: %s", n, didYouMean(n.Limit, names, n.Namespace+"/"), n.Namespace, list(names, more))
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

func list(names []string, more bool) string {
	if len(names) <= maxListed && !more {
		return strings.Join(names, ", ")
	}
	plus := ""
	if more {
		plus = "+"
	}
	return fmt.Sprintf("%s, ... (%d%s in all)", strings.Join(names[:maxListed], ", "), len(names), plus)
}

// didYouMean returns the nearest name as a clause, or nothing if none is near.
func didYouMean(got string, names []string, prefix string) string {
	if near := nearest.Word(got, names); near != "" {
		return fmt.Sprintf(" did you mean %q?", prefix+near)
	}
	return ""
}

// noLimit is the fault of a check whose limit is not there. A node that has just
// joined knows none before the meta group has told it: another node does.
func (s *service) noLimit(n quota.LimitName) *fault {
	limits := s.node.Limits()
	if limits == nil || limits.Version == 0 {
		if st := s.node.Status(); !st.GetReady() {
			return &fault{
				code: codes.Unavailable, http: http.StatusServiceUnavailable, reason: "NOT_READY", retry: time.Second,
				detail: "this node knows no limits yet: " + st.GetReason() + "; ask another node, or again in a second",
			}
		}
	}
	return noSuchLimit(n, limits)
}
