package fields

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/quorate/quorate/client"
)

const (
	second = time.Second
	day    = 24 * time.Hour
)

// TestSeconds checks that durations round up to seconds, so that no caller returns too early.
func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		-second: 0, 0: 0, 1: 1, second: 1, second + 1: 2, 90 * second: 90, client.Never: 9223372037,
	} {
		if got := Seconds(d); got != want {
			t.Errorf("%v: %d, want %d", d, got, want)
		}
	}
}

// TestFields checks the header fields for each result.
func TestFields(t *testing.T) {
	bucket := func(left int64) client.Policy {
		return client.Policy{Name: "login", Quota: 20, Window: 2 * second, Remaining: left, ResetAfter: time.Duration(20-left) * 100 * time.Millisecond}
	}
	window := client.Policy{Name: "daily", Quota: 1000, Window: day, Remaining: 900, ResetAfter: 5*time.Hour + 1, Windowed: true}
	limit := client.Limit{Namespace: "web", Name: "login"}
	for _, tc := range []struct {
		name              string
		r                 client.Result
		policy, rateLimit string
		retry             int64 // 0 means none
		tightest          string
	}{
		{"nothing", client.Result{Allowed: true}, "", "", 0, ""},
		{"bucket", client.Result{Allowed: true, Limit: limit, Policies: []client.Policy{bucket(19)}}, `"login";q=20;w=2`, `"login";r=19;t=1`, 0, "login"},
		{"full bucket", client.Result{Allowed: true, Limit: limit, Policies: []client.Policy{bucket(20)}}, `"login";q=20;w=2`, `"login";r=20;t=0`, 0, "login"},
		{"slow bucket", client.Result{Allowed: true, Limit: limit, Policies: []client.Policy{{Name: "login", Quota: 5, Window: time.Hour, Remaining: 1}}}, `"login";q=5;w=3600`, `"login";r=1;t=720`, 0, "login"},
		{"refused", client.Result{Limit: limit, RetryAfter: 1100 * time.Millisecond, Policies: []client.Policy{bucket(0)}}, `"login";q=20;w=2`, `"login";r=0;t=2`, 2, "login"},
		{"refused, at once", client.Result{Limit: limit, Policies: []client.Policy{bucket(0)}}, `"login";q=20;w=2`, `"login";r=0;t=0`, 1, "login"},
		{"refused for ever", client.Result{Limit: limit, RetryAfter: client.Never, Policies: []client.Policy{bucket(3)}}, `"login";q=20;w=2`, `"login";r=3`, 0, "login"},
		{"two", client.Result{Allowed: true, Limit: limit, Policies: []client.Policy{window, bucket(7)}}, `"daily";q=1000;w=86400, "login";q=20;w=2`, `"daily";r=900;t=18001, "login";r=7;t=1`, 0, "login"},
		{"two, one refuses", client.Result{Limit: limit, RetryAfter: 3 * second, Policies: []client.Policy{window, bucket(0)}}, `"daily";q=1000;w=86400, "login";q=20;w=2`, `"daily";r=900;t=18001, "login";r=0;t=3`, 3, "login"},
		{
			"tiers",
			client.Result{Limit: limit, RetryAfter: 3 * second, Policies: []client.Policy{bucket(20), {Name: "login-2", Quota: 50, Window: day, Windowed: true, ResetAfter: second}}},
			`"login";q=20;w=2, "login-2";q=50;w=86400`, `"login";r=20;t=0, "login-2";r=0;t=3`, 3, "login-2",
		},
		{"in flight", client.Result{Allowed: true, Policies: []client.Policy{{Name: "jobs", Quota: 3, Remaining: 1}}}, `"jobs";q=3;qu="concurrent-requests"`, `"jobs";r=1`, 0, "jobs"},
		{"odd name", client.Result{Allowed: true, Policies: []client.Policy{{Name: "a\"\\\nü", Quota: 1 << 60, Window: 1, Remaining: -4}}}, `"a\"\\???";q=999999999999999;w=1`, `"a\"\\???";r=0;t=1`, 0, "a\"\\\nü"},
		{"no quota", client.Result{Allowed: true, Policies: []client.Policy{{Name: "x", Window: second, Remaining: -1}}}, `"x";q=0;w=1`, `"x";r=0`, 0, "x"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var w Writer
			if got := strings.Join(w.Policy(&tc.r), "&"); got != tc.policy {
				t.Errorf("policy %s, want %s", got, tc.policy)
			}
			if got := string(RateLimit(nil, &tc.r)); got != tc.rateLimit {
				t.Errorf("rate limit %s, want %s", got, tc.rateLimit)
			}
			if got, ok := RetryAfter(&tc.r); got != tc.retry || ok != (tc.retry > 0) {
				t.Errorf("retry after %d, %v, want %d", got, ok, tc.retry)
			}
			got := ""
			if p := Tightest(&tc.r); p != nil {
				got = p.Name
			}
			if got != tc.tightest {
				t.Errorf("tightest %q, want %q", got, tc.tightest)
			}
			for _, field := range []string{tc.policy, tc.rateLimit} {
				if _, err := httpsfv.UnmarshalList([]string{field}); err != nil {
					t.Errorf("%s: %v", field, err)
				}
			}
		})
	}
}

// TestPolicyIsRemembered checks that the same policies give the same field and others a different
// one, whichever cache slot they share.
func TestPolicyIsRemembered(t *testing.T) {
	var w Writer
	result := func(quota int64) *client.Result {
		return &client.Result{Policies: []client.Policy{{Name: "x", Quota: quota, Window: second, Remaining: quota / 2}}}
	}
	first := w.Policy(result(1))
	if again := w.Policy(result(1)); &first[0] != &again[0] {
		t.Error("not remembered")
	}
	for quota := int64(1); quota < 1000; quota++ {
		if got, want := w.Policy(result(quota))[0], string(appendPolicies(nil, result(quota).Policies)); got != want {
			t.Errorf("%d: %s, want %s", quota, got, want)
		}
	}
	if _ = append(first, "mine"); first[0] != `"x";q=1;w=1` || cap(first) != 1 {
		t.Errorf("%q, capacity %d", first, cap(first))
	}
	if n := testing.AllocsPerRun(100, func() { w.Policy(result(999)) }); n > 1 { // the result itself
		t.Errorf("%v allocations", n)
	}
}

func TestDetail(t *testing.T) {
	limit := client.Limit{Name: "login"}
	for want, after := range map[string]time.Duration{
		"the limit login is used up; try again in 1 second":                        1,
		"the limit login is used up; try again in 2 seconds":                       1001 * time.Millisecond,
		"the limit login never admits this request, however long the caller waits": client.Never,
	} {
		if got := Detail(&client.Result{Limit: limit, RetryAfter: after}); got != want {
			t.Errorf("%v: %s, want %s", after, got, want)
		}
	}
}

// TestWait checks the waits that answers request from callers.
func TestWait(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		retry, date, age string
		limits           []string
		want             time.Duration
	}{
		{"", "", "", nil, 0},
		{"120", "", "", nil, 120 * second},
		{"0", "", "", nil, 0},
		{"99999999999", "", "", nil, 9223372036 * second},
		{"-1", "", "", nil, 0},
		{"1.5", "", "", nil, 0},
		{"soon", "", "", []string{`"a";r=0;t=9`}, 9 * second},
		{"Sun, 22 Nov 2026 12:00:07 GMT", "", "", nil, 7 * second},
		{"Sun, 22 Nov 2026 12:00:07 GMT", "Sun, 22 Nov 2026 12:00:05 GMT", "", nil, 2 * second},
		{"Sun, 22 Nov 2026 11:00:00 GMT", "", "", nil, 0},
		{"3", "", "", []string{`"a";r=0;t=9`}, 3 * second},
		{"", "", "", []string{`"a";r=0;t=9`}, 9 * second},
		{"", "", "5", []string{`"a";r=0;t=9`}, 0},
		{"", "", "0", []string{`"a";r=0;t=9`}, 9 * second},
		{"", "", "", []string{`"a";r=1;t=9`}, 0},
		{"", "", "", []string{`"a";r=0`}, 0},
		{"", "", "", []string{`"a";r=1;t=9, "b";r=0;t=4`, `"c";t=6;r=0;pk=:YQ==:;x;y="\"";z=1.5;u=?1;v=tok`}, 6 * second},
		{"", "", "", []string{`"a";r=0;t=9`, `broken`}, 0},
		{"", "", "", []string{`"a";r=0;t=-9`}, 0},
		{"", "", "", []string{`"a";r=0;t="9"`}, 0},
		{"", "", "", []string{`"a";r=0;t=9,`}, 0},
		{"", "", "", []string{strings.Repeat(`"a";r=0;t=9,`, 32) + `"a";r=0;t=9`}, 0},
		{"", "", "", []string{`"` + strings.Repeat("a", 5000) + `";r=0;t=9`}, 0},
	} {
		h := http.Header{"Ratelimit": tc.limits}
		for k, v := range map[string]string{"Retry-After": tc.retry, "Date": tc.date, "Age": tc.age} {
			if v != "" {
				h.Set(k, v)
			}
		}
		if got := Wait(h, now); got != tc.want {
			t.Errorf("%v: %v, want %v", h, got, tc.want)
		}
	}
}

// FuzzWrite checks that any name and numbers make a list that a structured-fields parser reads
// back.
func FuzzWrite(f *testing.F) {
	f.Add("login", int64(20), int64(2e9), int64(19), int64(1e8), false, true)
	f.Add("a\"\\\x00\xff", int64(-1), int64(-1), int64(1)<<62, int64(-5), true, false)
	f.Fuzz(func(t *testing.T, name string, quota, window, left, reset int64, windowed, allowed bool) {
		p := client.Policy{Name: name, Quota: quota, Window: time.Duration(window), Remaining: left, ResetAfter: time.Duration(reset), Windowed: windowed}
		r := &client.Result{Allowed: allowed, RetryAfter: time.Duration(reset), Limit: client.Limit{Name: name}, Policies: []client.Policy{p, p}}
		var w Writer
		for _, field := range []string{w.Policy(r)[0], string(RateLimit(nil, r))} {
			list, err := httpsfv.UnmarshalList([]string{field})
			if err != nil || len(list) != 2 {
				t.Fatalf("%s: %v", field, err)
			}
			for _, m := range list {
				params := m.(httpsfv.Item).Params
				for _, k := range params.Names() {
					if v, _ := params.Get(k); k != "qu" && v.(int64) < 0 {
						t.Errorf("%s: %s is negative", field, k)
					}
				}
			}
		}
		if items, ok := parseList(string(RateLimit(nil, r))); len(name) < 1000 && (!ok || len(items) != 2 || items[0].r != min(max(left, 0), maxInteger)) {
			t.Errorf("%s: %v, %v", RateLimit(nil, r), items, ok)
		}
	})
}

// FuzzRead checks that a structured-fields parser agrees with every list that this package reads.
func FuzzRead(f *testing.F) {
	f.Add(`"a";r=0;t=9, "b";r=1`)
	f.Add(`"c";t=6;r=0;pk=:YQ==:;x;y="\"";z=1.5;u=?1;v=tok`)
	f.Add(`"c"; r=000000000000009;r=4`)
	f.Fuzz(func(t *testing.T, field string) {
		items, ok := parseList(field)
		if !ok || len(items) == 0 {
			return
		}
		list, err := httpsfv.UnmarshalList([]string{field})
		if err != nil {
			// Only values that are not ours are read less strictly.
			if !strings.ContainsAny(field, "=;") {
				t.Fatalf("%q: read as %v, but %v", field, items, err)
			}
			return
		}
		if len(list) != len(items) {
			t.Fatalf("%q: read as %v, but has %d items", field, items, len(list))
		}
		for i, m := range list {
			it := m.(httpsfv.Item)
			r, _ := it.Params.Get("r")
			if it.Value != items[i].name || r != items[i].r {
				t.Errorf("%q: read as %v, but item %d is %v with r=%v", field, items, i, it.Value, r)
			}
		}
	})
}
