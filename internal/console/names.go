package console

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// Bounds of the names that a form proposes.
const (
	namesMost = 200
	namesBack = time.Hour
	namesWait = 500 * time.Millisecond // the page waits no longer for them
)

// names are what the fields of a form propose: namespaces and limits that were asked for in the last hour, the
// busiest. Other names can be typed as well.
type names struct{ Namespaces, Limits []string }

// namesFor returns the names for a form that is about a namespace, or about none yet. Who may not read what all
// limits were asked for gets none, nor does a part of a page that is drawn again.
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
