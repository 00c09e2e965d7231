package auth

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// fetches bounds the requests to an issuer, and the size of its answers.
type fetches struct {
	next http.RoundTripper
	now  func() time.Time

	mu    sync.Mutex
	left  int
	since time.Time // when left was computed
}

func newFetches(next http.RoundTripper, now func() time.Time) *fetches {
	if next == nil {
		next = http.DefaultTransport
	}
	return &fetches{next: next, now: now, left: fetchBurst, since: now()}
}

var errFetches = errors.New("its keys were fetched moments ago; try again in some seconds")

// RoundTrip implements http.RoundTripper.
func (f *fetches) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && !loopback(req.URL.Hostname()) { // the URL of the keys, or of a redirect
		return nil, fmt.Errorf("%s://%s: must be https: with http, anyone on the network path could replace the keys", req.URL.Scheme, req.URL.Host)
	}
	if !f.allow() {
		return nil, errFetches
	}
	res, err := f.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(res.Body, maxKeys), res.Body}
	return res, nil
}

func (f *fetches) allow() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if more := int(f.now().Sub(f.since) / fetchEvery); more > 0 {
		f.left = min(fetchBurst, f.left+more)
		f.since = f.since.Add(time.Duration(more) * fetchEvery)
	}
	if f.left == 0 {
		return false
	}
	f.left--
	return true
}
