package rest

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apitest"
	"github.com/quorate/quorate/internal/quota"
)

func forwardServer(t *testing.T, n api.Node) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(New(api.New(n, api.Options{}), Options{ForwardAuth: true}).Handler)
	t.Cleanup(srv.Close)
	return srv
}

func forward(t *testing.T, url string, headers ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res
}

// TestForwardKeys checks the key that a request is counted for.
func TestForwardKeys(t *testing.T) {
	n := apitest.New(t)
	srv := forwardServer(t, n)
	base := srv.URL + "/v1/forward-auth?namespace=web&limit=per_client&"
	long := strings.Repeat("k", quota.MaxKeyLen+1)
	for _, c := range []struct {
		query   string
		headers []string
		key     string
	}{
		{"key=all", nil, "all"},
		{"key=", nil, "*"},
		{"", nil, "127.0.0.1"},
		{"", []string{"X-Forwarded-For", "6.6.6.6, 10.0.0.1"}, "10.0.0.1"},
		{"hops=2", []string{"X-Forwarded-For", "6.6.6.6", "X-Forwarded-For", "10.0.0.1,10.0.0.2"}, "10.0.0.1"},
		{"hops=16", []string{"X-Forwarded-For", "6.6.6.6, 10.0.0.1"}, "6.6.6.6"},
		{"", []string{"X-Forwarded-For", "2001:db8:1:2:3:4:5:6"}, "2001:db8:1:2::/64"}, // a client has the whole network
		{"", []string{"X-Forwarded-For", "[2001:db8:1:2::9]:4711"}, "2001:db8:1:2::/64"},
		{"", []string{"X-Forwarded-For", "10.0.0.1:4711"}, "10.0.0.1"},
		{"", []string{"X-Forwarded-For", "::ffff:10.0.0.1"}, "10.0.0.1"},
		{"", []string{"X-Forwarded-For", "unknown"}, "unknown"},
		{"key_header=X-Tenant", []string{"X-Tenant", "a/b"}, "a/b"},
		{"key_header=X-Tenant", nil, "*"},
		{"key_header=X-Tenant&key_header=X-User", []string{"X-Tenant", "a/b", "X-User", "u"}, "a%2Fb/u"},
		{"key_header=X-Tenant", []string{"X-Tenant", long}, "sha256:3f94837a0fe6e0d9ba8ddb8d1afe10a86d60e0c57a9a08a3e6cdfc8e9a3e1f47"},
	} {
		n.Mu.Lock()
		clear(n.Used)
		n.Mu.Unlock()
		if res := forward(t, base+c.query, c.headers...); res.StatusCode != http.StatusOK {
			t.Errorf("%s %v: %s", c.query, c.headers, res.Status)
		}
		n.Mu.Lock()
		for k := range n.Used {
			if k.Key != c.key && (!strings.HasPrefix(c.key, "sha256:") || len(k.Key) != len(c.key)) {
				t.Errorf("%s %v: counted for %s; want %s", c.query, c.headers, k.Key, c.key)
			}
		}
		if len(n.Used) != 1 {
			t.Errorf("%s %v: counted for %v", c.query, c.headers, n.Used)
		}
		n.Mu.Unlock()
	}
}

// TestForwardAnswers checks the answers to the proxy.
func TestForwardAnswers(t *testing.T) {
	n := apitest.New(t)
	var mu sync.Mutex
	codes := map[string]int{}
	srv := httptest.NewServer(New(api.New(n, api.Options{}), Options{ForwardAuth: true, Forwarded: func(code string) {
		mu.Lock()
		defer mu.Unlock()
		codes[code]++
	}}).Handler)
	t.Cleanup(srv.Close)
	url := srv.URL + "/v1/forward-auth?"
	for _, c := range []struct {
		query  string
		status int
		fields []string // that are set
	}{
		{"namespace=web&limit=login&key=a", 200, []string{"Ratelimit", "Ratelimit-Policy"}},
		{"namespace=web&limit=login&key=a&cost=4", 200, nil},
		{"namespace=web&limit=login&key=a", 429, []string{"Ratelimit", "Retry-After"}},
		{"namespace=web&limit=login&key=a&deny_status=403", 403, []string{"Ratelimit", "Retry-After"}},
		{"namespace=web&limit=login&key=a&cost=0", 429, nil},
		{"namespace=web&limit=missing", 200, []string{"Quorate-Fault"}},
		{"namespace=web&limit=missing&fail=closed", 429, []string{"Quorate-Fault"}},
		{"namespace=web&limit=missing&fail=closed&deny_status=403", 403, nil},
		{"", 200, []string{"Quorate-Fault"}}, // the limit slas does not exist
		{"limits=x", 400, nil},
		{"namespace=web&limit=login&limit=x", 400, nil},
		{"fail=maybe", 400, nil},
		{"hops=0", 400, nil},
		{"deny_status=200", 400, nil},
		{"cost=-1", 400, nil},
		{"key=a&key_header=b", 400, nil},
		{"key_header=a%20b", 400, nil},
		{"namespace=web&limit=login&key=a;cost=4", 400, nil},
		{"namespace=web&limit=login&cost=%zz", 400, nil},
		{"namespace=we%20b&limit=login", 400, nil},
		{"namespace=web&limit=no/limit", 400, nil},
		{"namespace=web&limit=login&key=%ff", 400, nil},
		{"namespace=web&limit=login&key=" + strings.Repeat("k", quota.MaxKeyLen+1), 400, nil},
	} {
		res := forward(t, url+c.query, "X-Forwarded-Method", strings.Repeat("M", 300), "X-Forwarded-Uri", "nowhere"+strings.Repeat("p", 9000))
		if res.StatusCode != c.status {
			t.Errorf("%s: %s; want %d", c.query, res.Status, c.status)
		}
		for _, f := range c.fields {
			if res.Header.Get(f) == "" {
				t.Errorf("%s: no %s in %v", c.query, f, res.Header)
			}
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if want := map[string]int{"allowed": 2, "refused": 3, "fault": 4, "invalid": 14}; !maps.Equal(codes, want) {
		t.Errorf("counted %v, want %v", codes, want)
	}
	if res := forward(t, serveHTTP(t, n).URL+"/v1/forward-auth"); res.StatusCode != http.StatusNotFound {
		t.Errorf("where it is off: %s", res.Status)
	}
}

// TestForwardMatch checks that, without a limit, the method and path of the client's request choose
// it.
func TestForwardMatch(t *testing.T) {
	n := apitest.New(t)
	list := slices.Clone(n.Active.All())
	for i := range list {
		if list[i].Limit == "login" {
			list[i].Match = &quota.Match{Methods: []string{"POST"}, Path: "/login"}
		}
	}
	set, err := quota.NewLimits(8, list)
	if err != nil {
		t.Fatal(err)
	}
	n.Active = set
	srv := forwardServer(t, n)
	for _, c := range []struct {
		headers []string
		used    int
	}{
		{[]string{"X-Forwarded-Method", "POST", "X-Forwarded-Uri", "/login?next=/"}, 1},
		{[]string{"X-Original-Method", "POST", "X-Original-URI", "/login"}, 1},
		{[]string{"X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/login"}, 0},
		{nil, 0},
	} {
		clear(n.Used)
		if res := forward(t, srv.URL+"/v1/forward-auth?namespace=web", c.headers...); res.StatusCode != http.StatusOK || len(n.Used) != c.used {
			t.Errorf("%v: %s, counted for %v; want %d", c.headers, res.Status, n.Used, c.used)
		}
	}
}

// debtNode is a node that admits only requests that accept a wait.
type debtNode struct{ *apitest.Node }

func (n debtNode) Check(k quota.Key, cost int64) quota.Decision {
	var out [1]quota.Decision
	n.Decide([]quota.Request{{Key: k, Cost: cost, MaxWait: quota.LimitsWait}}, out[:])
	return out[0]
}

func (n debtNode) Decide(reqs []quota.Request, out []quota.Decision) bool {
	l, _ := n.Limits().Find(reqs[0].Key.LimitName)
	out[0] = quota.Decision{Limit: l, Allowed: reqs[0].MaxWait != 0, Why: quota.WhyReserved, Wait: time.Minute}
	return out[0].Allowed
}

// TestForwardTakesNothingToCome checks that a proxy's request does not pass by tokens that it would have to
// wait for.
func TestForwardTakesNothingToCome(t *testing.T) {
	srv := forwardServer(t, debtNode{apitest.New(t)})
	for _, key := range []string{"ann", "bob"} {
		if res := forward(t, srv.URL+"/v1/forward-auth?namespace=web&limit=login&key="+key); res.StatusCode != http.StatusTooManyRequests {
			t.Errorf("%s: %s", key, res.Status)
		}
	}
}

// TestForwardOlderHeaders checks that answers to proxies also have the X-RateLimit headers.
func TestForwardOlderHeaders(t *testing.T) {
	srv := forwardServer(t, apitest.New(t))
	var got []string
	for range 6 {
		res := forward(t, srv.URL+"/v1/forward-auth?namespace=web&limit=login&key=ann")
		h := res.Header
		got = append(got, res.Status[:3]+" "+h.Get("X-RateLimit-Limit")+" "+h.Get("X-RateLimit-Remaining"))
		if h.Get("X-RateLimit-Reset") == "" || !strings.Contains(h.Get("RateLimit"), ";t="+h.Get("X-RateLimit-Reset")) {
			t.Errorf("reset %q, RateLimit %q", h.Get("X-RateLimit-Reset"), h.Get("RateLimit"))
		}
	}
	if want := []string{"200 5 4", "200 5 3", "200 5 2", "200 5 1", "200 5 0", "429 5 0"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestForwardEscapedPath checks that a client cannot keep a limit from matching its path by percent-encoding a
// part of it.
func TestForwardEscapedPath(t *testing.T) {
	n := apitest.New(t)
	list := slices.Clone(n.Active.All())
	for i := range list {
		switch list[i].Limit {
		case "login":
			list[i].Match = &quota.Match{Path: "/login"}
		case "per_client":
			list[i].Match = &quota.Match{Path: "/search/*"}
		}
	}
	set, err := quota.NewLimits(8, list)
	if err != nil {
		t.Fatal(err)
	}
	n.Active = set
	srv := forwardServer(t, n)
	for _, uri := range []string{"/login", "/log%69n", "/%6C%6fgin?next=/", "/login#", "/login#?/x", "/login/", "/login%2f", "/search/a", "/search/%3Fa", "/search/%zz", "/se%61rch/%zz%", "/search/%ff"} {
		clear(n.Used)
		if res := forward(t, srv.URL+"/v1/forward-auth?namespace=web", "X-Forwarded-Uri", uri); res.StatusCode != http.StatusOK || len(n.Used) != 1 {
			t.Errorf("%s: %s, counted for %v; want one limit", uri, res.Status, n.Used)
		}
	}
}
