package api

import (
	"testing"

	"github.com/quorate/quorate/api/apitest"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
)

// TestSendEvents checks that a burst is bounded and drops no received event.
func TestSendEvents(t *testing.T) {
	events := make(chan quota.Event, 1000)
	for range cap(events) {
		events <- quota.Event{Key: quota.Key{LimitName: quota.LimitName{Namespace: "web", Limit: "login"}, Key: "k"}}
	}
	sent := 0
	if err := sendEvents(<-events, events, func() uint64 { return 0 }, func(*quoratev1.WatchResponse) error { sent++; return nil }); err != nil {
		t.Fatal(err)
	}
	if sent > maxEventBurst+1 || sent+len(events) != cap(events) {
		t.Errorf("%d sent, %d left of %d", sent, len(events), cap(events))
	}
	if err := sendEvents(quota.Event{Key: quota.Key{LimitName: quota.LimitName{Namespace: "web", Limit: "login"}, Key: "k"}}, events, func() uint64 { return 0 }, func(*quoratev1.WatchResponse) error { return apitest.ErrDisk }); err == nil {
		t.Error("a failed send is not told")
	}
}
