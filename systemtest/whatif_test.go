package systemtest

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

const (
	ruleThen = `
version: 1
namespaces:
  api:
    limits:
      one: {rate: 50/s, burst: 100}
      many: {rate: 5/s, burst: 10}
`
	ruleNext = `
version: 1
namespaces:
  api:
    limits:
      one: {rate: 70/s, burst: 140}
      many: {rate: 7/s, burst: 14}
`
)

// playFor is the duration of the load, which is the same each time. It sends 90 checks a second of
// one key of api/one, and as many of ten keys of api/many, of which the busiest gets 16 a second.
const playFor = 15 * time.Second

// loadOf returns the checks of a limit in each second, in order.
func loadOf(limit string) (out []quota.Key) {
	name := quota.LimitName{Namespace: "api", Limit: limit}
	if limit == "one" {
		for range 90 {
			out = append(out, quota.Key{LimitName: name, Key: "k"})
		}
		return out
	}
	for turn := range 16 {
		for k := range 10 {
			if turn < []int{16, 14, 12, 12, 10, 8, 6, 6, 4, 2}[k] {
				out = append(out, quota.Key{LimitName: name, Key: fmt.Sprint("k", k)})
			}
		}
	}
	return out
}

// play sends the load of a limit, each check at its time and to the nodes in turn. It returns how
// many checks were sent, refused, and not answered.
func (c *servers) play(limit string) (sent, refused, unknown int64) {
	second := loadOf(limit)
	var refusals, failures atomic.Int64
	due := make(chan int)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range due {
				k := second[i%len(second)]
				res, err := try(c.nodes[i%3], http.MethodPost, "/v1/allow", map[string]any{"namespace": k.Namespace, "limit": k.Limit, "key": k.Key})
				switch {
				case err != nil:
					failures.Add(1)
				case res.code != http.StatusOK:
					refusals.Add(1)
				}
			}
		})
	}
	began, all := time.Now(), int(playFor/time.Second)*len(second)
	for i := range all {
		time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(len(second))))) // the load's times
		due <- i
	}
	close(due)
	wg.Wait()
	return int64(all), refusals.Load(), failures.Load()
}

// playBoth plays both limits at the same time.
func (c *servers) playBoth() (refused map[string]int64) {
	refused = map[string]int64{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, limit := range []string{"one", "many"} {
		wg.Go(func() {
			_, n, unknown := c.play(limit)
			mu.Lock()
			defer mu.Unlock()
			refused[limit] = n
			if unknown > 0 {
				c.t.Errorf("%s: %d checks were not answered", limit, unknown)
			}
		})
	}
	wg.Wait()
	return refused
}

// whatIf is a part of quorate.v1.WhatIfResponse; JSON writes int64 as a string.
type whatIf struct {
	Outcome, Now struct {
		Attempted      int64
		RefusedAtLeast int64 `json:"refused_at_least"`
		RefusedAtMost  int64 `json:"refused_at_most"`
		RefusedLikely  int64 `json:"refused_likely"`
	}
	Basis string
}

// playCalm plays both limits without an election in between, and starts again after one. A stall of
// the machine can cause an election, in which soft limits may be exceeded.
func (c *servers) playCalm() (from time.Time, refused map[string]int64) {
	c.t.Helper()
	for range 5 {
		before := c.awaitReady(c.nodes[1], 10*time.Second)
		from = time.Now().Add(-2 * time.Second)
		refused = c.playBoth()
		after := c.awaitReady(c.nodes[1], 10*time.Second)
		if slices.Equal(before.terms(), after.terms()) {
			return from, refused
		}
		c.t.Logf("there was an election while it was played: terms %v, then %v", before.terms(), after.terms())
		awaitOtherLists()
	}
	c.t.Fatal("there was no time without an election")
	return from, refused
}

// listsOf returns the start of the first list that may contain requests made at that time. A list
// covers a minute, and includes the seconds after it until it is written.
func listsOf(at time.Time) time.Time { return at.Add(-time.Minute).Truncate(time.Minute) }

// awaitOtherLists waits until later requests go into lists that contain none of the earlier ones.
func awaitOtherLists() {
	for before := time.Now(); listsOf(time.Now().Add(-5 * time.Second)).Before(before); {
		time.Sleep(time.Second) // a list covers a minute
	}
}

// playAndAsk plays both limits and asks what another rule would have refused. The lists of keys
// need leaders that stay: if an election comes before a list is written, playAndAsk starts again.
func (c *servers) playAndAsk() (refused map[string]int64, said map[string]whatIf) {
	c.t.Helper()
	for try := 1; ; try++ {
		before := c.awaitReady(c.nodes[1], 10*time.Second)
		from, refused := c.playCalm()
		said, err := c.askBoth(from)
		if err == nil {
			return refused, said
		}
		after := c.awaitReady(c.nodes[1], 10*time.Second)
		if try == 4 || slices.Equal(before.terms(), after.terms()) {
			c.t.Fatalf("try %d: %v; terms %v, then %v", try, err, before.terms(), after.terms())
		}
		c.t.Logf("try %d: there was an election before lists were written: %v", try, err)
		awaitOtherLists()
	}
}

// askBoth asks what other rules would have refused since from.
func (c *servers) askBoth(from time.Time) (said map[string]whatIf, err error) {
	said = map[string]whatIf{}
	for limit, next := range map[string]url.Values{"one": {"rate": {"70/s"}, "burst": {"140"}}, "many": {"rate": {"7/s"}, "burst": {"14"}}} {
		next.Set("namespace", "api")
		next.Set("limit", limit)
		next.Set("from", from.UTC().Format(time.RFC3339))
		if said[limit], err = c.awaitListed(limit, from, next); err != nil {
			return nil, err
		}
	}
	return said, nil
}

// awaitListed waits until the history contains everything that was sent to a limit, and returns
// what another rule would have done with it.
func (c *servers) awaitListed(limit string, from time.Time, next url.Values) (a whatIf, err error) {
	sent := int64(playFor/time.Second) * int64(len(loadOf(limit)))
	began, node := time.Now(), "http://"+c.nodes[1].httpAddr
	lists := url.Values{"namespace": {"api"}, "limit": {limit}, "from": {listsOf(from).UTC().Format(time.RFC3339)}}
	for ; time.Since(began) < 90*time.Second; time.Sleep(time.Second) {
		var keys struct{ Keys []struct{ Attempted int64 } }
		if err = get(node+"/v1/history/keys?"+lists.Encode(), &keys); err != nil {
			continue
		}
		listed := int64(0)
		for _, k := range keys.Keys {
			listed += k.Attempted
		}
		if err = get(node+"/v1/plan/what-if?"+next.Encode(), &a); err != nil {
			continue
		}
		if listed >= sent && a.Outcome.Attempted >= sent {
			return a, nil
		}
		err = fmt.Errorf("api/%s: %d of %d listed by key, %d replayed", limit, listed, sent, a.Outcome.Attempted)
	}
	return a, err
}

// TestWhatIfAgain checks the what-if answers against reality: what three nodes say another rule
// would have refused of a load must match what that rule refuses when the same load comes again,
// for a limit with one key and for one with ten.
func TestWhatIfAgain(t *testing.T) {
	testspeed.Full(t)
	t.Parallel() // mostly waits
	c := newServers(t, 4)
	c.run(ruleThen)
	then, said := c.playAndAsk()
	c.apply(ruleNext)
	time.Sleep(3 * time.Second) // until all buckets are full
	_, again := c.playCalm()
	for limit, a := range said {
		o := a.Outcome
		t.Logf("api/%s: of %d, %d were refused then; said of the other rule are %d to %d, %d likely; it refused %d (%s)",
			limit, o.Attempted, then[limit], o.RefusedAtLeast, o.RefusedAtMost, o.RefusedLikely, again[limit], a.Basis)
		if n := again[limit]; n < o.RefusedAtLeast || n > o.RefusedAtMost {
			t.Errorf("api/%s: %d were refused, said are %d to %d", limit, n, o.RefusedAtLeast, o.RefusedAtMost)
		}
		if off := again[limit] - o.RefusedLikely; max(off, -off) > o.Attempted/12 {
			t.Errorf("api/%s: %d were refused, said is %d", limit, again[limit], o.RefusedLikely)
		}
		if then[limit] <= again[limit] {
			t.Errorf("api/%s: %d were refused then, and %d with the larger rule", limit, then[limit], again[limit])
		}
	}
}
