package systemtest

import (
	"fmt"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func ruleTiers(t *testing.T, c *servers) {
	k := key("api", "tiers", "k")
	if a := post(t, c.nodes[0], "/v1/allow", in(k, "cost", 4)); !a.Allowed {
		t.Fatalf("%+v", a)
	}
	awaitCounted(t, c.nodes[1], k, "tiers", 4)
	for i := range 9 { // the first tier has room for 1, the second for 6
		if a := post(t, c.nodes[i%3], "/v1/allow", in(k, "cost", 2)); a.Allowed || a.Tier != 1 {
			t.Errorf("2 where the first tier has 1 left: %+v", a)
		}
	}
	take(t, c.nodes[2], k, 1) // the last token of the first tier
	awaitCounted(t, c.nodes[0], k, "tiers", 5)
	awaitCounted(t, c.nodes[0], k, "tiers#2", 5)
}

func ruleSeveral(t *testing.T, c *servers) {
	tenant, place := key("api", "tenant", "k"), key("api", "place", "k")
	both := fields{"checks": []fields{in(tenant), in(place)}}
	for i := range 2 {
		eventually(t, 3*time.Second, fmt.Sprintf("request %d passes", i), func() error {
			if a := post(t, c.nodes[i], "/v1/allow:all", both); !a.Allowed {
				return fmt.Errorf("%s", a.body)
			}
			return nil
		})
	}
	awaitCounted(t, c.nodes[2], place, "place", 2)
	for _, s := range c.nodes {
		awaitPeek(t, s, place, false)
		awaitPeek(t, s, tenant, true) // the node may never have been asked for the key
		for range 3 {
			a := post(t, s, "/v1/allow:all", both)
			if a.Allowed || a.code != 429 || !a.Results[0].Allowed || a.Results[1].Allowed {
				t.Errorf("%s: %s", s.id, a.body)
			}
		}
	}
	awaitCounted(t, c.nodes[1], place, "place", 2)
	awaitCounted(t, c.nodes[1], tenant, "tenant", 2)
}

// ruleTemplate checks that a node has room for three buckets of a template, and for no fourth while
// all are in use.
func ruleTemplate(t *testing.T, c *servers) {
	for i := range 3 {
		k := key("visitors", fmt.Sprintf("page%d", i), "k")
		if got := drain(t, c.nodes[:1], k); got != 2 {
			t.Errorf("%v: %d were admitted; want 2", k, got)
		}
	}
	fourth := key("visitors", "page3", "k")
	if a := post(t, c.nodes[0], "/v1/allow", in(fourth)); a.Allowed || a.Why != "too_many_keys" {
		t.Errorf("a fourth bucket where 3 may be: %+v", a)
	}
	// The node may refuse the first use of a hard limit: the log can commit later than a check waits.
	take(t, c.nodes[1], fourth, 1)
	take(t, c.nodes[0], key("api", "few", "beside"), 1)
}

func ruleDefaults(t *testing.T, c *servers) {
	for _, d := range []struct {
		namespace string
		want      int
	}{{"api", 3}, {"nowhere", 4}} {
		one, other := key(d.namespace, "one", "k"), key(d.namespace, "other", "k")
		take(t, c.nodes[0], one, 1)
		take(t, c.nodes[1], other, 1)
		if got := drain(t, c.nodes, one) + drain(t, c.nodes, other); got != d.want-2 {
			t.Errorf("%s: %d of two names were admitted; want %d", d.namespace, got+2, d.want)
		}
	}
}

func ruleUncounted(t *testing.T, c *servers) {
	for _, r := range []struct {
		limit, first, last string // the reason of the first request and of the last
		allowed            bool
	}{
		{"free", "unlimited", "unlimited", true},
		{"never", "banned", "banned", false},
		{"off", "not_enforced", "not_enforced", true},
		{"trial", "", "over_limit", true},
	} {
		k := key("api", r.limit, "k")
		var last answer
		for i := range 6 {
			last = post(t, c.nodes[i%3], "/v1/allow", in(k))
			if last.Allowed != r.allowed || i == 0 && r.first != "" && last.Why != r.first {
				t.Errorf("%s, request %d: %+v", r.limit, i, last)
			}
		}
		shadow := r.limit == "trial"
		if last.Why != r.last || last.Shadow != shadow {
			t.Errorf("%s: %+v; want %s, shadow %v", r.limit, last, r.last, shadow)
		}
	}
}

// ruleFraction checks that refusals are enforced for a quarter of the keys, the same keys on all
// nodes.
func ruleFraction(t *testing.T, c *servers) {
	const keys = 400
	var checks []fields
	for i := range 2 * keys {
		checks = append(checks, in(key("api", "partly", fmt.Sprintf("key%d", i/2))))
	}
	refused := map[int]int{} // how many nodes refuse each key
	for _, s := range c.nodes {
		for i, r := range post(t, s, "/v1/allow:batch", fields{"checks": checks}).Results {
			if i%2 == 0 {
				continue // the first token
			}
			if r.Response.Allowed != r.Response.Shadow {
				t.Fatalf("%s: the second of key%d: %+v", s.id, i/2, r.Response)
			}
			if !r.Response.Allowed {
				refused[i/2]++
			}
		}
	}
	t.Logf("%d of %d keys are refused", len(refused), keys)
	if n := len(refused); n < keys*18/100 || n > keys*32/100 {
		t.Errorf("%d of %d keys are refused; want about a quarter", n, keys)
	}
	for i, n := range refused {
		if n != 3 {
			t.Errorf("key%d is refused by %d of 3 nodes", i, n)
		}
	}
}

// rulePaths checks that a request is charged to all matching rules, and that the strictest one
// refuses.
func rulePaths(t *testing.T, c *servers) {
	ask := func(s *server, method, path string) answer {
		return post(t, s, "/v1/allow", fields{"method": method, "path": path, "key": "k"})
	}
	both, one := key("slas", "any-product", "k"), key("slas", "get-product", "k")
	pass := func(s *server, method, path string) {
		eventually(t, 3*time.Second, s.id+" admits "+method+" "+path, func() error {
			if a := ask(s, method, path); !a.Allowed {
				return fmt.Errorf("%+v", a)
			}
			return nil
		})
	}
	refuse := func(s *server, method, path, by string) {
		eventually(t, 3*time.Second, s.id+" refuses "+method+" "+path, func() error {
			if a := ask(s, method, path); a.Allowed || a.code != 429 || a.Limit.Name != by {
				return fmt.Errorf("%+v", a)
			}
			return nil
		})
	}
	for i := range 3 {
		pass(c.nodes[i], http.MethodGet, "/product/7")
	}
	awaitCounted(t, c.nodes[0], both, "any-product", 3)
	awaitCounted(t, c.nodes[0], one, "get-product", 3)
	for _, s := range c.nodes {
		refuse(s, http.MethodGet, "/product/8?x=1", "get-product") // soft: this node may hold a token
	}
	for i := range 2 {
		pass(c.nodes[i], http.MethodPut, "/product/7/parts") // only one rule matches
	}
	for _, s := range c.nodes {
		refuse(s, http.MethodPut, "/product/7", "any-product")
	}
	if a := ask(c.nodes[2], http.MethodPost, "/other"); !a.Allowed || a.Why != "no_limit" {
		t.Errorf("what no rule matches: %+v", a)
	}
}

func ruleParent(t *testing.T, c *servers) {
	first, second, service := key("api", "user", "acme/first"), key("api", "user", "acme/second"), key("api", "service", "acme")
	for i := range 5 {
		if a := post(t, c.nodes[0], "/v1/allow", in(first)); !a.Allowed || a.Why == "floor" {
			t.Errorf("request %d of the first user: %+v", i, a)
		}
	}
	awaitCounted(t, c.nodes[1], service, "service", 5)
	for _, s := range c.nodes {
		awaitPeek(t, s, service, false)
	}
	if a := post(t, c.nodes[1], "/v1/allow", in(second)); !a.Allowed || a.Why != "floor" {
		t.Errorf("the second user, of a service that is used up: %+v", a)
	}
	awaitCounted(t, c.nodes[0], second, "user#floor", 1)
	for _, s := range c.nodes {
		eventually(t, 2*time.Second, s.id+" knows that the floor is used up", func() error {
			if a := post(t, s, "/v1/allow", in(second, "cost", 0)); a.Allowed || a.Why != "parent_over_limit" {
				return fmt.Errorf("%+v", a)
			}
			return nil
		})
	}
	if a := post(t, c.nodes[2], "/v1/allow", in(key("api", "user", "other/k"))); !a.Allowed || a.Why == "floor" {
		t.Errorf("a user of another service: %+v", a)
	}
}

// ruleInFlight runs many callers at three nodes, each of which releases at any other node. The test
// counts how many are in flight and compares that with the limit.
func ruleInFlight(t *testing.T, c *servers) {
	const most, callers = 5, 12
	k := key("api", "places", "k")
	var now, peak, acquired, refused atomic.Int64
	var wg sync.WaitGroup
	end := time.Now().Add(2 * time.Second)
	for i := range callers {
		wg.Go(func() {
			for n := i; time.Now().Before(end); n++ {
				a, err := try(c.nodes[n%3], http.MethodPost, "/v1/acquire", in(k))
				if err != nil || a.code != 200 && a.code != 429 {
					t.Errorf("acquire: %d %s, %v", a.code, a.body, err)
					return
				}
				if !a.Allowed {
					refused.Add(1)
					time.Sleep(5 * time.Millisecond) // a refused caller pauses
					continue
				}
				acquired.Add(1)
				at := now.Add(1)
				for p := peak.Load(); at > p && !peak.CompareAndSwap(p, at); p = peak.Load() {
				}
				time.Sleep(20 * time.Millisecond) // holds the place for a while
				now.Add(-1)
				if a, err := try(c.nodes[(n+1)%3], http.MethodPost, "/v1/release", fields{"handle": a.Handle}); err != nil || a.code != 200 {
					t.Errorf("release: %d %s, %v", a.code, a.body, err)
					return
				}
			}
		})
	}
	wg.Wait()
	t.Logf("acquired %d, refused %d, at most %d of %d at a time", acquired.Load(), refused.Load(), peak.Load(), most)
	if p := peak.Load(); p > most || p < most-1 {
		t.Errorf("%d were in flight at a time; the limit is %d, and asked for were %d", p, most, callers)
	}
	if acquired.Load() < 50 {
		t.Errorf("only %d were acquired in 2 s of 20 ms each", acquired.Load())
	}
	var handles []string
	eventually(t, 3*time.Second, "all places are free again", func() error {
		for _, s := range c.nodes {
			if a := post(t, s, "/v1/acquire", in(k)); a.Allowed {
				handles = append(handles, a.Handle)
			}
		}
		if len(handles) < most {
			return fmt.Errorf("%d of %d", len(handles), most)
		}
		return nil
	})
	for _, s := range c.nodes {
		if a := post(t, s, "/v1/acquire", in(k)); a.Allowed || a.code != 429 || len(handles) != most {
			t.Errorf("beyond %d: %s", len(handles), a.body)
		}
	}
}

// ruleHammered checks one login per second over three nodes, and windows of two seconds.
func ruleHammered(t *testing.T, c *servers) {
	const length, most = 2 * time.Second, 100
	login, aligned := key("api", "login", "k"), key("api", "aligned", "k")
	began := time.Now()
	var logins, all []stamped
	var wg sync.WaitGroup
	wg.Go(func() {
		logins = hammer(c.nodes, 2, 10*time.Millisecond, 5*time.Second, "/v1/allow", in(login))
	})
	wg.Go(func() {
		all = hammer(c.nodes, 2, 10*time.Millisecond, 6300*time.Millisecond, "/v1/allow", in(aligned))
	})
	wg.Wait()
	checkPerSecond(t, logins)
	checkWindows(t, all, began, length, most)
}

func checkPerSecond(t *testing.T, logins []stamped) {
	t.Helper()
	var admitted []stamped
	for _, a := range logins {
		if a.Allowed {
			admitted = append(admitted, a)
		}
		if want := map[bool]string{true: "leader", false: "over_limit"}[a.Allowed]; a.Why != want {
			t.Fatalf("%s: %+v", a.node, a.answer)
		}
	}
	if len(admitted) == 0 {
		t.Fatal("nobody was admitted")
	}
	span := logins[len(logins)-1].since.Sub(admitted[0].sent).Seconds()
	t.Logf("1/s, decided by the leader: %d of %d admitted in %.2f s", len(admitted), len(logins), span)
	if n := float64(len(admitted)); n > 1+span || n < math.Floor(1+span-0.2) {
		t.Errorf("admitted %d in %.2f s", len(admitted), span)
	}
}

// checkWindows counts, for each whole window, what was certainly admitted in it and what may have
// been.
func checkWindows(t *testing.T, all []stamped, began time.Time, length time.Duration, most int) {
	t.Helper()
	end := all[len(all)-1].sent
	windows := 0
	for at := began.Truncate(length).Add(length); !at.Add(length).After(end); at = at.Add(length) {
		sure, maybe, asked := 0, 0, 0
		for _, a := range all {
			if a.since.Before(at) || !a.sent.Before(at.Add(length)) {
				continue
			}
			asked++
			if a.Allowed {
				maybe++
				if !a.sent.Before(at) && a.since.Before(at.Add(length)) {
					sure++
				}
			}
		}
		windows++
		t.Logf("window at %s: admitted %d to %d of %d asked", at.UTC().Format("15:04:05"), sure, maybe, asked)
		if sure > most || maybe < most*9/10 {
			t.Errorf("a window of %d admitted %d to %d", most, sure, maybe)
		}
	}
	if windows < 2 {
		t.Errorf("only %d whole windows", windows)
	}
}
