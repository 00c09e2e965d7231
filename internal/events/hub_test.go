package events

import (
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/quorate/quorate/internal/quota"
)

func event(key string) quota.Event {
	return quota.Event{Kind: quota.EventServed, Key: quota.Key{LimitName: quota.LimitName{Namespace: "web", Limit: "login"}, Key: key}}
}

func TestWatch(t *testing.T) {
	var h Hub
	h.Publish(event("nobody watches"))
	if h.Watched() {
		t.Error("watched before anybody does")
	}
	all, _, stopAll := h.Watch(quota.EventFilter{}, 0)
	one, _, stopOne := h.Watch(quota.EventFilter{Key: "b"}, 1)
	if cap(all) != DefaultBuffer || !h.Watched() {
		t.Errorf("buffer %d, watched %v", cap(all), h.Watched())
	}
	h.Publish(event("a"))
	h.Publish(event("b"))
	if len(all) != 2 || len(one) != 1 || (<-one).Key.Key != "b" {
		t.Errorf("%d events for all, %d for b", len(all), len(one))
	}
	stopOne()
	stopOne()
	h.Publish(event("b"))
	if len(one) != 0 || len(all) != 3 {
		t.Errorf("after stop: %d for b, %d for all", len(one), len(all))
	}
	stopAll()
	if h.Watched() {
		t.Error("watched after all have stopped")
	}
	huge, _, stop := h.Watch(quota.EventFilter{}, 1<<30)
	defer stop()
	if cap(huge) != MaxBuffer {
		t.Errorf("buffer %d, want %d", cap(huge), MaxBuffer)
	}
}

// TestEventsOwnTheirKeys checks that an event that waits does not keep the request that its key is a part of.
func TestEventsOwnTheirKeys(t *testing.T) {
	var h Hub
	waiting, _, stop := h.Watch(quota.EventFilter{}, 1)
	defer stop()
	request := "web" + "login" + "key"
	request = strings.Clone(request)
	h.Publish(quota.Event{Key: quota.Key{LimitName: quota.LimitName{Namespace: request[:3], Limit: request[3:8]}, Key: request[8:]}})
	e := <-waiting
	if e.Key.Namespace != "web" || e.Key.LimitName.Limit != "login" || e.Key.Key != "key" {
		t.Errorf("%v", e.Key)
	}
	if unsafe.StringData(e.Key.Key) == unsafe.StringData(request[8:]) || unsafe.StringData(e.Key.Namespace) == unsafe.StringData(request) {
		t.Error("the event has a part of the request")
	}
}

func TestSlowWatchersLoseCountably(t *testing.T) {
	var h Hub
	slow, lostSlow, stopSlow := h.Watch(quota.EventFilter{}, 4)
	defer stopSlow()
	wide, lostWide, stopWide := h.Watch(quota.EventFilter{}, 100)
	defer stopWide()
	for range 50 {
		h.Publish(event("k"))
	}
	if len(slow) != 4 || lostSlow() != 46 {
		t.Errorf("slow: %d there, %d lost; want 4 and 46", len(slow), lostSlow())
	}
	if len(wide) != 50 || lostWide() != 0 {
		t.Errorf("wide: %d there, %d lost; want 50 and 0", len(wide), lostWide())
	}
}

// TestConcurrent: every event is either received or counted as lost.
func TestConcurrent(t *testing.T) {
	var h Hub
	const publishers, each = 8, 2000
	events, lost, stop := h.Watch(quota.EventFilter{}, 16)
	var wg sync.WaitGroup
	for range publishers {
		wg.Go(func() {
			for range each {
				h.Publish(event("k"))
			}
		})
		wg.Go(func() {
			for range 100 {
				_, _, stop := h.Watch(quota.EventFilter{Key: "k"}, 1)
				stop()
			}
		})
	}
	published := make(chan struct{})
	go func() { wg.Wait(); close(published) }()
	got := uint64(0)
	for done := false; !done; {
		select {
		case <-events:
			got++
		case <-published:
			done = true
		}
	}
	stop()
	if got += uint64(len(events)); got+lost() != publishers*each {
		t.Errorf("%d received and %d lost are not %d published", got, lost(), publishers*each)
	}
}

func BenchmarkPublish(b *testing.B) {
	bench := func(name string, watch func(*Hub) func()) {
		b.Run(name, func(b *testing.B) {
			var h Hub
			defer watch(&h)()
			e := event("k")
			b.ReportAllocs()
			for b.Loop() {
				h.Publish(e)
			}
		})
	}
	bench("nobody", func(*Hub) func() { return func() {} })
	bench("one", func(h *Hub) func() {
		events, _, stop := h.Watch(quota.EventFilter{}, 0)
		quit := make(chan struct{})
		go func() {
			for {
				select {
				case <-events:
				case <-quit:
					return
				}
			}
		}()
		return func() { stop(); close(quit) }
	})
	bench("full", func(h *Hub) func() {
		_, _, stop := h.Watch(quota.EventFilter{}, 1)
		return stop
	})
	bench("filtered", func(h *Hub) func() {
		_, _, stop := h.Watch(quota.EventFilter{Key: "other"}, 1)
		return stop
	})
}
