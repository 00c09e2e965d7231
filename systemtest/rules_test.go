package systemtest

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

const ruleLimits = `
version: 1
global_default: {rate: 1/h, burst: 4, ceiling: hard}
namespaces:
  api:
    default: {rate: 1/h, burst: 3, ceiling: hard}
    limits:
      waits:   {rate: 10/s, burst: 1, max_wait: 1s}
      queue:   {rate: 10/s, burst: 1, max_wait: 1s, decide: leader}
      few:     {rate: 1/h, burst: 5, ceiling: hard}
      debt:    {rate: 1/h, burst: 10}
      tiers:   {tiers: [{rate: 1/h, burst: 5}, {limit: 10, per: 30d}]}
      tenant:  {rate: 1/h, burst: 10}
      place:   {rate: 1/h, burst: 2}
      free:    {unlimited: true}
      never:   {ban: true}
      trial:   {rate: 1/h, burst: 1, enforcement: shadow}
      off:     {rate: 1/h, burst: 1, enforcement: off}
      partly:  {rate: 1/h, burst: 1, enforcement: {mode: enforce, fraction: 25%}}
      user:    {rate: 1/h, burst: 10, parent: service, floor: {rate: 1/h, burst: 1}}
      service: {rate: 1/h, burst: 5}
      places:  {in_flight: 5, lease: 30s, ceiling: hard}
      login:   {rate: 1/s, burst: 1, ceiling: hard, decide: leader, when_cut_off: closed}
      aligned: {limit: 100, per: 2s, ceiling: hard}
  visitors:
    template: {rate: 1/h, burst: 2, ceiling: hard, max_keys: 3}
slas:
  - id: get-product
    enabled: true
    match: {methods: [GET], pathPattern: /product/*}
    tiers: [{period: 1000000, threshold: 3}]
  - id: any-product
    enabled: true
    match: {methods: [GET, PUT], pathPattern: /product/**}
    tiers: [{period: 1000000, threshold: 12}]
`

// TestRules checks every rule on real nodes, with each step at another node.
func TestRules(t *testing.T) {
	testspeed.Full(t)
	c := newServers(t, 8)
	c.run(ruleLimits)
	for _, r := range []struct {
		name string
		test func(*testing.T, *servers)
	}{
		{"waits", ruleWaits},
		{"peek and refund", rulePeekRefund},
		{"report", ruleReport},
		{"reserve and settle", ruleReserve},
		{"renew and expire", ruleExpire},
		{"tiers", ruleTiers},
		{"several limits", ruleSeveral},
		{"template", ruleTemplate},
		{"defaults", ruleDefaults},
		{"without counting", ruleUncounted},
		{"fraction", ruleFraction},
		{"methods and paths", rulePaths},
		{"parent and floor", ruleParent},
		{"in flight", ruleInFlight},
		{"leader and windows", ruleHammered},
	} {
		t.Run(r.name, func(t *testing.T) {
			began := time.Now()
			r.test(t, c)
			t.Logf("took %v", time.Since(began).Round(10*time.Millisecond))
		})
	}
}

// ruleWaits checks the queue of a limit with waits. Callers at three nodes at once get ten places a
// second, and each waits for as long as those before it owe. If the leader decides, the queue is
// exact. If each node decides, a node that has not asked the leader yet may admit a caller ahead of
// the queue.
func ruleWaits(t *testing.T, c *servers) {
	for _, q := range []struct {
		limit string
		loose int // how many callers may go ahead of the queue
	}{{"queue", 0}, {"waits", len(c.nodes) - 1}} {
		k := key("api", q.limit, "k")
		began := time.Now()
		waits := queue(t, c.nodes, k, 24)
		took := time.Since(began).Seconds()
		t.Logf("%s: 24 at once, in %.3f s: waits %.3f", q.limit, took, waits)
		if n := float64(len(waits)); n < 12 || n > float64(12+q.loose)+10*took {
			t.Errorf("%s: %v were admitted; want two at once, one on credit, and ten in the next second", q.limit, n)
		}
		for i, w := range waits {
			want := float64(max(0, i-1)) / 10
			if w > want+0.001 || w < want-float64(q.loose)/10-took-0.001 {
				t.Errorf("%s: wait %d is %.3f s; want %.3f, less at most %.3f", q.limit, i, w, want, took)
			}
		}
		for _, less := range []float64{0, 0.01} {
			ask := func() answer { return post(t, c.nodes[2], "/v1/allow", in(k, "max_wait", less)) }
			a := ask()
			for ahead, tries := len(waits)-12, 0; a.Allowed && ahead < q.loose && tries < q.loose; ahead, tries = ahead+1, tries+1 {
				a = ask() // the previous caller had gone ahead of the queue
			}
			if late := time.Since(began) > 700*time.Millisecond; a.Allowed && late { // the queue was over: start a new one
				began = time.Now()
				queue(t, c.nodes, k, 24)
				a = ask()
			}
			if a.Allowed || a.code != 429 {
				t.Errorf("%s, with a wait of %v s at most: %+v", q.limit, less, a)
			}
		}
	}
}

// queue sends n requests at once, spread over all nodes, and returns the waits of those that were
// admitted, shortest first. The limit's own wait is the longest allowed.
func queue(t *testing.T, nodes []*server, k quota.Key, n int) []float64 {
	t.Helper()
	var mu sync.Mutex
	var waits []float64
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			a, err := try(nodes[i%len(nodes)], http.MethodPost, "/v1/allow", in(k, "max_wait", 3600))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				t.Error(err)
			case a.Allowed:
				waits = append(waits, a.Wait)
			case a.Why != "wait_too_long" || a.code != 429:
				t.Errorf("refused: %+v", a)
			}
		})
	}
	wg.Wait()
	slices.Sort(waits)
	return waits
}

func rulePeekRefund(t *testing.T, c *servers) {
	k := key("api", "few", "refunded")
	for i := range 12 {
		if a := post(t, c.nodes[i%3], "/v1/allow", in(k, "cost", 0)); !a.Allowed || a.Remaining != 5 {
			t.Fatalf("peek %d: %+v", i, a)
		}
	}
	if got := drain(t, c.nodes, k); got != 5 {
		t.Errorf("after the peeks %d were admitted; want 5", got)
	}
	if a := post(t, c.nodes[1], "/v1/allow", in(k, "cost", 0)); a.Allowed {
		t.Errorf("peek at what is used up: %+v", a)
	}
	post(t, c.nodes[1], "/v1/refund", in(k, "cost", 2))
	awaitPeek(t, c.nodes[2], k, true)
	if got := drain(t, c.nodes, k); got != 2 {
		t.Errorf("after a refund of 2, %d were admitted", got)
	}
}

// ruleReport checks that reported usage is booked, down to a burst below zero.
func ruleReport(t *testing.T, c *servers) {
	k := key("api", "debt", "k")
	if a := post(t, c.nodes[0], "/v1/report", in(k, "used", 15)); a.Booked != 15 || a.Remaining != 0 {
		t.Fatalf("15 of 10: %s", a.body)
	}
	for _, s := range c.nodes {
		awaitPeek(t, s, k, false)
	}
	if a := post(t, c.nodes[1], "/v1/report", in(k, "used", 10)); a.Booked != 5 {
		t.Errorf("10 more: booked %d; want 5, which is a burst below zero: %s", a.Booked, a.body)
	}
	awaitCounted(t, c.nodes[2], k, "debt", 20)
}

func awaitPeek(t *testing.T, s *server, k quota.Key, allowed bool) {
	t.Helper()
	eventually(t, 2*time.Second, fmt.Sprintf("%s says allowed=%v of %v", s.id, allowed, k), func() error {
		if a := post(t, s, "/v1/allow", in(k, "cost", 0)); a.Allowed != allowed {
			return fmt.Errorf("%+v", a)
		}
		return nil
	})
}

func ruleReserve(t *testing.T, c *servers) {
	k := key("api", "few", "reserved")
	r := post(t, c.nodes[0], "/v1/reserve", fields{"checks": []fields{in(k, "cost", 5)}, "ttl": 60})
	if !r.Allowed || r.Handle == "" || r.ExpiresIn != 60 {
		t.Fatalf("reserve 5 of 5: %s", r.body)
	}
	if got := drain(t, c.nodes, k); got != 0 {
		t.Errorf("all is reserved, but %d were admitted", got)
	}
	post(t, c.nodes[2], "/v1/settle", fields{"handle": r.Handle, "used": 2})
	awaitPeek(t, c.nodes[1], k, true)
	if got := drain(t, c.nodes, k); got != 3 {
		t.Errorf("2 of 5 were used, then %d were admitted; want 3", got)
	}
	for _, s := range c.nodes {
		if a, err := try(s, http.MethodPost, "/v1/settle", fields{"handle": r.Handle}); err != nil || a.code != 404 {
			t.Errorf("%s: settled again: %d %s, %v", s.id, a.code, a.body, err)
		}
	}
}

// ruleExpire checks two reservations: one renewed through another node, and one abandoned.
func ruleExpire(t *testing.T, c *servers) {
	k := key("api", "few", "abandoned")
	reserve := func(cost, ttl int) (a answer) {
		t.Helper()
		eventually(t, 3*time.Second, "a reservation", func() error { // a busy machine's node may hold less for a moment
			if a = post(t, c.nodes[0], "/v1/reserve", fields{"checks": []fields{in(k, "cost", cost)}, "ttl": ttl}); !a.Allowed {
				return fmt.Errorf("%s", a.body)
			}
			return nil
		})
		return a
	}
	kept := reserve(2, 2)
	post(t, c.nodes[1], "/v1/renew", fields{"handle": kept.Handle, "ttl": 120})
	lost := reserve(3, 1)
	expires := time.Now().Add(time.Second)
	awaitPeek(t, c.nodes[2], k, false)
	time.Sleep(time.Until(expires)) // before that, a peek may read a level that a report is about to change
	began := time.Now()
	awaitPeek(t, c.nodes[2], k, true)
	t.Logf("free again %v after the reservation expired", time.Since(began).Round(10*time.Millisecond))
	if a, err := try(c.nodes[1], http.MethodPost, "/v1/renew", fields{"handle": lost.Handle, "ttl": 1}); err != nil || a.code != 404 {
		t.Errorf("renewing what has expired: %d %s, %v", a.code, a.body, err)
	}
	if got := drain(t, c.nodes, k); got != 3 {
		t.Errorf("3 had been abandoned, %d were admitted", got)
	}
	post(t, c.nodes[2], "/v1/settle", fields{"handle": kept.Handle, "used": 0})
	awaitPeek(t, c.nodes[0], k, true)
}
