package systemtest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/quota"
)

// TestClientsExact kills and restarts a node under fifty clients that decide locally. It checks
// that in the end the leaders have counted exactly what the clients admitted; for a hard limit,
// what the dead node had lent counts as used as well.
func TestClientsExact(t *testing.T) {
	needBinary(t)
	const limit = 10_000_000
	c := newServers(t, 16)
	c.run(fmt.Sprintf(`
version: 1
namespaces:
  api:
    limits:
      soft: {limit: %[1]d, per: 1h}
      hard: {limit: %[1]d, per: 1h, ceiling: hard}
`, limit))
	keys := c.keysLedBy("n1", "api/soft", "api/hard")
	var admitted [2]atomic.Int64
	var work sync.WaitGroup
	var clients []*client.Client
	stop := make(chan struct{})
	for i := range 50 {
		addrs := []string{c.nodes[i%3].grpc, c.nodes[(i+1)%3].grpc, c.nodes[(i+2)%3].grpc}
		q, err := client.New(t.Context(), addrs, client.WithName(fmt.Sprintf("p%d", i)), client.WithTimeout(5*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, q)
		select {
		case <-q.Ready():
		case <-time.After(10 * time.Second):
			t.Fatalf("client %d is not ready: %+v", i, q.Stats())
		}
		work.Go(func() { clientLoad(t, q, keys, &admitted, stop) })
	}
	time.Sleep(time.Second) // load before the kill
	c.nodes[2].kill()       // leads neither key
	time.Sleep(time.Second) // load while it is down
	c.start(c.nodes[2])     // the journal restores its bookings; what it held is free again
	time.Sleep(time.Second) // load with it
	close(stop)
	work.Wait()
	reattached := uint64(0)
	for i, q := range clients {
		q.Close()
		s := q.Stats()
		reattached += s.Reattached
		if s.Dropped != 0 || s.Bad != 0 {
			t.Errorf("client %d: %+v", i, s)
		}
	}
	if reattached < 16 {
		t.Errorf("%d clients have attached again; sixteen have lost their node", reattached)
	}
	for i, k := range keys {
		var got int64
		eventually(t, 5*time.Second, fmt.Sprintf("%v: what clients admitted is counted", k), func() error {
			got = c.counted(limit, keys[i:i+1])[0]
			if want := admitted[i].Load(); got < want || got > want && k.Limit == "soft" {
				return fmt.Errorf("%v: clients admitted %d, counted %d (%+d)", k, want, got, got-want)
			}
			return nil
		})
		t.Logf("%v: %d admitted, %d counted", k, admitted[i].Load(), got)
	}
}

// clientLoad takes one token of each key every few milliseconds.
func clientLoad(t *testing.T, q *client.Client, keys []quota.Key, admitted *[2]atomic.Int64, stop <-chan struct{}) {
	buckets := make([]*client.Bucket, len(keys))
	for i, k := range keys {
		buckets[i] = q.Bucket(k.Namespace, k.Limit, k.Key)
	}
	for {
		for i, b := range buckets {
			res, err := b.Check(t.Context(), 1)
			if err != nil {
				t.Error(err)
				return
			}
			if res.Allowed {
				admitted[i].Add(1)
			}
		}
		select {
		case <-stop:
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}
