package console

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// Bounds of the names that a form suggests.
const (
	namesMost = 200
	namesBack = time.Hour
	namesWait = 500 * time.Millisecond // longest time that the page waits for them
)

// names are the suggestions for a form: the busiest namespaces and limits of the last hour. Other
// names can be entered too.
type names struct{ Namespaces, Limits []string }

// namesFor returns the suggestions for a form about a namespace, or about none yet. It returns no
// suggestions for readers without permission to read the use of all limits, and none in live
// updates.
func namesFor(r *Request, namespace string) (out names) {
	if isLive(r) {
		return out
	}
	ctx, cancel := context.WithTimeout(r.Context(), namesWait)
	defer cancel()
	res, err := r.Rates.HistoryLimits(ctx, &quoratev1.HistoryLimitsRequest{From: timestamppb.New(r.Now().Add(-namesBack)), Top: namesMost})
	if err != nil {
		return out // the fields are typed into without
	}
	for _, l := range res.Limits {
		if l.Namespace == accountNamespace {
			continue
		}
		out.Namespaces = append(out.Namespaces, l.Namespace)
		if namespace == "" || l.Namespace == namespace {
			out.Limits = append(out.Limits, l.Limit)
		}
	}
	slices.Sort(out.Namespaces)
	slices.Sort(out.Limits)
	return names{slices.Compact(out.Namespaces), slices.Compact(out.Limits)}
}
