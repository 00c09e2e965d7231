package api

import (
	"strconv"
	"testing"

	"github.com/quorate/quorate/api/apitest"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// TestSendEvents checks that a burst is bounded and drops no received event.
func TestSendEvents(t *testing.T) {
	events := make(chan *quoratev1.WatchResponse, 1000)
	for i := range cap(events) {
		events <- &quoratev1.WatchResponse{Event: &quoratev1.Event{Key: "k"}, MissingNodes: []string{strconv.Itoa(i)}}
	}
	sent := 0
	missing, err := sendEvents(<-events, events, func() uint64 { return 7 }, func(r *quoratev1.WatchResponse) error {
		if r.Lost != 7 {
			t.Errorf("%d lost", r.Lost)
		}
		sent++
		return nil
	})
	if err != nil || len(missing) != 1 || missing[0] != strconv.Itoa(sent-1) {
		t.Fatalf("%v missing, %v", missing, err)
	}
	if sent > maxEventBurst+1 || sent+len(events) != cap(events) {
		t.Errorf("%d sent, %d left of %d", sent, len(events), cap(events))
	}
	if _, err := sendEvents(&quoratev1.WatchResponse{}, events, func() uint64 { return 0 }, func(*quoratev1.WatchResponse) error { return apitest.ErrDisk }); err == nil {
		t.Error("a failed send is not told")
	}
}
