package rest

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apitest"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
)

func testEvent(key string) quota.Event {
	return quota.Event{
		At: 1_800_000_000e9, Kind: quota.EventServed, Key: quota.Key{LimitName: quota.LimitName{Namespace: "web", Limit: "login"}, Key: key},
		Limit: quota.LimitName{Namespace: "web", Limit: quota.Template}, Dynamic: true, Cost: 3, Wait: 1500 * time.Millisecond, Why: quota.WhyReserved, Near: true,
	}
}

// waitFor fails the test unless the channel yields soon.
func waitFor(t *testing.T, what string, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(time.Minute):
		t.Fatal(what + ": nothing happened")
	}
}

func TestEventsOverHTTP(t *testing.T) {
	n := apitest.New(t)
	srv := serveHTTP(t, n)
	for _, c := range []struct{ accept, contentType, prefix string }{
		{"", "application/x-ndjson", ""},
		{"text/event-stream", "text/event-stream", "data: "},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+"/v1/events?namespace=web&limit=login&kinds=tokens_served,refused,refused&buffer=9", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", c.accept)
		res, err := http.DefaultClient.Do(req)
		if err != nil || res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != c.contentType {
			t.Fatalf("%v %v", res, err)
		}
		n.Events <- testEvent("k")
		line, err := bufio.NewReader(res.Body).ReadString('\n')
		want := c.prefix + `{"event":{"at":"2027-01-15T08:00:00Z","kind":"tokens_served","namespace":"web","limit":"@template","key":"k","dynamic":true,"cost":3,"wait":1.5,"why":"reserved","shadow":false,"near":true,"bucket":"login"},"lost":0,"node":"n1","missing_nodes":[]}` + "\n"
		if err != nil || line != want {
			t.Errorf("got  %s\nwant %s (%v)", line, want, err)
		}
		n.Mu.Lock()
		f := n.Filter
		n.Mu.Unlock()
		if f.Namespace != "web" || f.Limit != "login" || len(f.Kinds) != 2 || f.Kinds[1] != quota.EventRefused {
			t.Errorf("the node was asked for %+v", f)
		}
		cancel()
		res.Body.Close()
		waitFor(t, "the watch ends with its caller", n.Stopped)
	}
}

// TestHeadOfStreams checks that HEAD answers with the headers of a stream and ends.
func TestHeadOfStreams(t *testing.T) {
	events := serveHTTP(t, apitest.New(t))
	rates := httptest.NewServer(New(pastService(apitest.NewPast(t)), Options{}).Handler)
	t.Cleanup(rates.Close)
	for _, srv := range []*httptest.Server{events, rates} {
		t.Cleanup(srv.CloseClientConnections) // or Close waits for a stream that does not end
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for _, url := range []string{events.URL + "/v1/events?namespace=web", rates.URL + "/v1/rates/watch"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodHead, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "text/event-stream")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("%s: %v", url, res)
		}
		req, _ = http.NewRequestWithContext(ctx, http.MethodHead, url+"?", nil)
		if second, err := http.DefaultTransport.RoundTrip(req); err != nil {
			t.Errorf("%s, again: %v", url, err) // the connection is free
		} else {
			second.Body.Close()
		}
	}
}

func TestEventFaults(t *testing.T) {
	walk(t, apitest.New(t), []step{
		{"GET", "/v1/events?kinds=token_served", "", 400, `kinds: is \"token_served\"; did you mean \"tokens_served\"? must be one of tokens_served, timeout_serving_tokens,`, ""},
		{"GET", "/v1/events?buffer=65537", "", 400, "buffer: 65537; must be 1 to 65536, or 0", ""},
		{"GET", "/v1/events?limit=a%2Fb", "", 400, "limit:", ""},
		{"GET", "/v1/events?namespace=@x", "", 400, "namespace:", ""},
		{"GET", "/v1/events?key=" + strings.Repeat("k", 1025), "", 400, "key: is 1025 bytes", ""},
		{"GET", "/v1/events?node=n9", "", 404, `"NO_SUCH_NODE"`, ""},
		{"POST", "/v1/events", "", 405, "use GET", ""},
	})
	c := quoratev1.NewEventServiceClient(dialGRPC(t, apitest.New(t), api.Options{}))
	stream, err := c.Watch(t.Context(), &quoratev1.WatchRequest{Kinds: []quoratev1.EventKind{99}})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "kinds: unknown kind 99") {
		t.Errorf("%v", err)
	}
}

func TestEventsOverGRPC(t *testing.T) {
	n := apitest.New(t)
	n.Lost = 7
	c := quoratev1.NewEventServiceClient(dialGRPC(t, n, api.Options{}))
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := c.Watch(ctx, &quoratev1.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for range 256 + 10 { // more than one burst
		n.Events <- testEvent("k")
		res, err := stream.Recv()
		if err != nil || res.Event.Key != "k" || res.Event.Kind != quoratev1.EventKind_EVENT_KIND_TOKENS_SERVED || res.Lost != 7 {
			t.Fatalf("%v %v", res, err)
		}
	}
	cancel()
	waitFor(t, "the watch ends with its caller", n.Stopped)
}

// TestEventsOutliveTimeouts checks that heartbeats arrive, that the timeouts of ordinary calls do
// not end a stream, and that a shutdown does.
func TestEventsOutliveTimeouts(t *testing.T) {
	n := apitest.New(t)
	s := api.New(n, api.Options{})
	s.Heartbeat = 10 * time.Millisecond
	hs := New(s, Options{})
	hs.ReadTimeout, hs.WriteTimeout = 50*time.Millisecond, 50*time.Millisecond
	srv := httptest.NewUnstartedServer(nil)
	srv.Config = hs
	srv.Start()
	defer srv.Close()
	res, err := http.Get(srv.URL + "/v1/events")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	r := bufio.NewReader(res.Body)
	for range 20 { // 200 ms
		if line, err := r.ReadString('\n'); err != nil || line != `{"event":null,"lost":0,"node":"","missing_nodes":[]}`+"\n" {
			t.Fatalf("%q %v", line, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := hs.Shutdown(ctx); err != nil {
		t.Errorf("a stream holds the shutdown up: %v", err)
	}
	waitFor(t, "the watch ends with the server", n.Stopped)
}
