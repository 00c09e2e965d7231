package systemtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// callers send requests to all nodes and never repeat a request that got no answer. The number of
// admitting answers is therefore a lower bound of what was admitted, and that number plus the
// unanswered requests is an upper bound.
type callers struct {
	t     *testing.T
	keys  []quota.Key
	each  map[*server]*caller
	ended chan struct{}
	wg    sync.WaitGroup
}

// caller sends requests to one node, several at a time.
type caller struct {
	gate sync.RWMutex // read-locked by every request in flight

	mu         sync.Mutex
	told       map[quota.Key]int64 // admitting answers
	unanswered int64               // requests without an answer; each asked for all keys
	answered   int64
	why        map[string]int64
}

// startCallers sends perNode requests a second to each node; each request checks all keys.
func startCallers(t *testing.T, nodes []*server, perNode int, keys []quota.Key) *callers {
	t.Helper()
	const atOnce = 4
	cs := &callers{t: t, keys: keys, each: map[*server]*caller{}, ended: make(chan struct{})}
	var checks []fields
	for _, k := range keys {
		checks = append(checks, in(k))
	}
	body, err := json.Marshal(fields{"checks": checks})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range nodes {
		cl := &caller{told: map[quota.Key]int64{}, why: map[string]int64{}}
		cs.each[s] = cl
		for range atOnce {
			cs.wg.Go(func() { cs.call(s.httpAddr, cl, time.Second*atOnce/time.Duration(perNode), body) })
		}
	}
	t.Cleanup(func() { cs.stop() })
	return cs
}

// call sends requests until the callers stop.
func (cs *callers) call(addr string, cl *caller, every time.Duration, body []byte) {
	// Each request opens its own connection: if the connection is refused, the dead node certainly
	// never saw the request.
	h := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-cs.ended:
			return
		case <-tick.C:
		}
		cl.gate.RLock()
		cl.ask(h, addr, cs.keys, body)
		cl.gate.RUnlock()
	}
}

// ask sends one request. A request that found no listener counts as not sent.
func (cl *caller) ask(h *http.Client, addr string, keys []quota.Key, body []byte) {
	a, err := send(h, addr, body)
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return
	}
	if err != nil || a.code != http.StatusOK || len(a.Results) != len(keys) {
		cl.unanswered++
		return
	}
	cl.answered++
	for i, k := range keys {
		r := a.Results[i].Response
		if r == nil { // a node that has just started may not know the limit yet: it charges nothing
			cl.why[k.Limit+" error"]++
			continue
		}
		if r.Allowed {
			cl.told[k]++
		}
		cl.why[k.Limit+" "+r.Why]++
	}
}

func send(h *http.Client, addr string, body []byte) (a answer, err error) {
	res, err := h.Post("http://"+addr+"/v1/allow:batch", "application/json", bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return a, err
	}
	a.code = res.StatusCode
	return a, json.Unmarshal(b, &a)
}

// pause blocks new requests to the node and returns when none is in flight.
func (cs *callers) pause(s *server)  { cs.each[s].gate.Lock() }
func (cs *callers) resume(s *server) { cs.each[s].gate.Unlock() }

// stop ends the load and waits for the last answers.
func (cs *callers) stop() {
	select {
	case <-cs.ended:
	default:
		close(cs.ended)
	}
	cs.wg.Wait()
}

// sums returns, per key, the number of admitting answers and of requests without an answer.
func (cs *callers) sums(keys []quota.Key) (told, unanswered []int64) {
	told, unanswered = make([]int64, len(keys)), make([]int64, len(keys))
	for _, cl := range cs.each {
		cl.mu.Lock()
		for i, k := range keys {
			told[i] += cl.told[k]
			unanswered[i] += cl.unanswered
		}
		cl.mu.Unlock()
	}
	return told, unanswered
}
