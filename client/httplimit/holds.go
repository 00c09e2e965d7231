package httplimit

import (
	"net/http"
	"sync"
	"time"

	"github.com/quorate/quorate/client/internal/fields"
)

// maxHolds bounds the hosts to avoid; beyond it one is dropped.
const maxHolds = 1024

// holds are the hosts to avoid, and until when.
type holds struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// of returns how long to avoid a host.
func (h *holds) of(host string) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	until, ok := h.until[host]
	if !ok {
		return 0
	}
	d := time.Until(until)
	if d <= 0 {
		delete(h.until, host)
	}
	return d
}

// learn records what a response asks for.
func (h *holds) learn(host string, res *http.Response, longest time.Duration) {
	header := res.Header
	if res.StatusCode != http.StatusTooManyRequests && res.StatusCode != http.StatusServiceUnavailable {
		header = http.Header{"Ratelimit": header["Ratelimit"], "Age": header["Age"]}
	}
	now := time.Now()
	d := min(fields.Wait(header, now), longest)
	if d <= 0 {
		return
	}
	h.set(host, now.Add(min(jitter(d), longest)), now)
}

// set keeps the later of two times.
func (h *holds) set(host string, until, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.until == nil {
		h.until = make(map[string]time.Time)
	}
	if _, ok := h.until[host]; !ok && len(h.until) >= maxHolds {
		h.makeRoom(now)
	}
	if until.After(h.until[host]) {
		h.until[host] = until
	}
}

// makeRoom drops expired entries, or else an arbitrary one.
func (h *holds) makeRoom(now time.Time) {
	for host, until := range h.until {
		if until.Before(now) {
			delete(h.until, host)
		}
	}
	for host := range h.until {
		if len(h.until) < maxHolds {
			return
		}
		delete(h.until, host)
	}
}
