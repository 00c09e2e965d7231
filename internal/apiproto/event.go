package apiproto

import (
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
)

// Event encodes an event.
func Event(e *quota.Event) *quoratev1.Event {
	limit := e.Limit
	if limit == (quota.LimitName{}) {
		limit = e.Key.LimitName
	}
	namespace := e.Key.Namespace
	if namespace == "" {
		namespace = limit.Namespace
	}
	return &quoratev1.Event{
		At: Time(e.At), Kind: quoratev1.EventKind(e.Kind), Namespace: namespace, Limit: limit.Limit, Key: e.Key.Key, Dynamic: e.Dynamic,
		Bucket: e.Bucket(),
		Cost:   e.Cost, Wait: Pause(e.Wait), Why: quoratev1.Why(e.Why), Shadow: e.Shadow, Near: e.Near,
	}
}
