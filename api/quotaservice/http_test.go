package quotaservice

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/golden"
	"github.com/quorate/quorate/internal/quota"
)

var rewrite = flag.Bool("rewrite", false, "write what the handler says into testdata; then read the diff")

func do(n Node, method, path string, header ...string) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequest(method, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	Handler(n).ServeHTTP(w, r)
	return w
}

// fromTheirs returns a node with limits converted from a configuration of quotaservice, in three
// versions.
func fromTheirs(t *testing.T) *fakeNode {
	t.Helper()
	data, err := os.ReadFile("testdata/theirs.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Convert("quotaservice", "theirs.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	n := &fakeNode{limits: set(t, 3, c.Limits...), past: map[uint64][]quota.Limit{}}
	for i := uint64(3); i > 0; i-- {
		list := n.limits.All()[:len(c.Limits)-3+int(i)]
		n.history = append(n.history, quota.Version{
			Number: i, At: quota.Time(time.Unix(1476921600+int64(i), 5).UnixNano()), By: fmt.Sprint("user", i), Limits: len(list),
		})
		n.past[i] = list
	}
	n.rates = []*quoratev1.KeyRate{
		{Namespace: "TheBrain_userLogins", Limit: "@template", Key: "bob/*", Admitted: 7, Refused: 2},
		{Namespace: "TheBrain_userLogins", Limit: "@template", Key: "bob/phone", Admitted: 1},
		{Namespace: "TheBrain_userLogins", Limit: "@template", Key: "/10.0.0.0/8/*", Admitted: 9},
		{Namespace: "TheBrain_userLogins", Limit: "@template", Key: "eve/*", Refused: 40},
		{Namespace: "TheBrain_userLogins", Limit: "@default", Key: "*", Admitted: 1},
		{Namespace: "TheBrain_userLogins", Limit: "tiers", Key: "*", Admitted: 3},
		{Namespace: "TheBrain_userLogins", Limit: "tiers#2", Key: "*", Admitted: 3},
		{Namespace: "TheBrain_userLogins", Limit: "tiers#floor", Key: "*", Admitted: 3},
	}
	return n
}

// TestGolden checks the answer of every path. The files are the answers of the quotaservice server
// for the same configuration, except for the texts of errors.
func TestGolden(t *testing.T) {
	n := fromTheirs(t)
	for file, c := range map[string]struct {
		path string
		code int
	}{
		"all":             {"/api", 200},
		"namespace":       {"/api/Pinky_TheBrain", 200},
		"template":        {"/api/TheBrain_userLogins/", 200},
		"bucket":          {"/api/Pinky_TheBrain/UserService", 200},
		"configs":         {"/api/configs", 200},
		"stats":           {"/api/stats/TheBrain_userLogins", 200},
		"stats-bucket":    {"/api/stats/TheBrain_userLogins/bob", 200},
		"no-namespace":    {"/api/nope", 404},
		"no-namespace-2":  {"/api/nope/UserService", 404},
		"no-bucket":       {"/api/Pinky_TheBrain/nope", 404},
		"no-template":     {"/api/TheBrain_userLogins/___DYNAMIC_BUCKET_TPL___", 404},
		"stats-nothing":   {"/api/stats", 400},
		"stats-nowhere":   {"/api/stats/nope", 404},
		"stats-nowhere-2": {"/api/stats/nope/b", 404},
	} {
		w := do(n, http.MethodGet, c.path)
		if w.Code != c.code || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("GET %s: %d %v; want %d", c.path, w.Code, w.Header(), c.code)
		}
		name := filepath.Join("testdata", file+".json")
		golden.Hold(t, name, w.Body.String(), *rewrite)
	}
}

func TestSameAnswers(t *testing.T) {
	n := fromTheirs(t)
	all := do(n, http.MethodGet, "/api").Body.String()
	for _, path := range []string{"/api/", "/api/___GLOBAL___", "/api/___GLOBAL___/"} {
		if got := do(n, http.MethodGet, path).Body.String(); got != all {
			t.Errorf("GET %s: %s; want the same as /api", path, got)
		}
	}
	if w := do(n, http.MethodGet, "/api/stats/TheBrain_userLogins/a/b"); !strings.Contains(w.Body.String(), `"a/b"`) {
		t.Errorf("a bucket with a slash: %s", w.Body)
	}
}

func TestVersionHeader(t *testing.T) {
	n := fromTheirs(t)
	for _, c := range []struct {
		path, version string
		want          int
	}{
		{"/api", "3", 200},
		{"/api", "2", 409},
		{"/api/Pinky_TheBrain", "4", 409},
		{"/api/Pinky_TheBrain/UserService", "2", 409},
		{"/api", "three", 400},
		{"/api", "-3", 400},
		{"/api/configs", "2", 200},
		{"/api/stats/TheBrain_userLogins", "2", 200},
	} {
		if w := do(n, http.MethodGet, c.path, "Version", c.version); w.Code != c.want {
			t.Errorf("GET %s, version %s: %d %s; want %d", c.path, c.version, w.Code, w.Body, c.want)
		}
	}
}

// TestReadOnly checks that a request to change limits gets an answer that names the way to do so.
func TestReadOnly(t *testing.T) {
	n := fromTheirs(t)
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch} {
		for _, path := range []string{"/api", "/api/ns", "/api/ns/bucket", "/api/configs", "/api/stats/ns"} {
			w := do(n, method, path)
			var body map[string]string
			if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
				t.Fatal(err)
			}
			if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" ||
				body["error"] != "Method Not Allowed" || !strings.Contains(body["description"], "quorate limits apply") {
				t.Errorf("%s %s: %d %v %v", method, path, w.Code, w.Header(), body)
			}
		}
	}
	if w := do(n, http.MethodHead, "/api"); w.Code != http.StatusOK {
		t.Errorf("HEAD /api: %d", w.Code)
	}
}

func TestNothingThere(t *testing.T) {
	for _, limits := range []*quota.Limits{nil, set(t, 0)} {
		n := &fakeNode{limits: limits}
		for path, want := range map[string]string{"/api": `{}`, "/api/configs": `{"configs":[]}`} {
			if w := do(n, http.MethodGet, path); w.Code != 200 || w.Body.String() != want {
				t.Errorf("GET %s: %d %s; want %s", path, w.Code, w.Body, want)
			}
		}
	}
}

func TestNoLeader(t *testing.T) {
	n := fromTheirs(t)
	n.err = errNoLeader
	for _, path := range []string{"/api", "/api/configs", "/api/stats/TheBrain_userLogins", "/api/stats/TheBrain_userLogins/bob"} {
		if w := do(n, http.MethodGet, path); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), errNoLeader.Error()) {
			t.Errorf("GET %s: %d %s; want 503 with the reason", path, w.Code, w.Body)
		}
	}
}

// TestHistoryIsBounded checks that a history of large versions is cut to the newest, and that a
// version that was dropped since the listing is not an error.
func TestHistoryIsBounded(t *testing.T) {
	count := func(n *fakeNode) int {
		var body struct{ Configs []map[string]any }
		if err := json.Unmarshal(do(n, http.MethodGet, "/api/configs").Body.Bytes(), &body); err != nil {
			t.Fatal(err)
		}
		return len(body.Configs)
	}
	n := fromTheirs(t)
	delete(n.past, 1)
	if got := count(n); got != 2 {
		t.Errorf("%d versions; want the 2 that are left", got)
	}
	n = fromTheirs(t)
	n.history[0].Limits, n.history[1].Limits = maxHistoryLimits+1, 1
	if got := count(n); got != 1 {
		t.Errorf("%d versions; want the newest alone", got)
	}
}

func TestStats(t *testing.T) {
	n := &fakeNode{limits: set(t, 1, withGlobal(usual())...)}
	for i := range 30 {
		n.rates = append(n.rates, &quoratev1.KeyRate{Namespace: "dynamic", Limit: "@template", Key: fmt.Sprint("b", i, "/*"), Admitted: int64(i), Refused: int64(100 - i)})
	}
	var body struct {
		TopHits, TopMisses []struct {
			Bucket string
			Value  int64
		}
	}
	w := do(n, http.MethodGet, "/api/stats/dynamic")
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Fatal(err)
	}
	if len(body.TopHits) != 10 || body.TopHits[0].Bucket != "b29" || body.TopHits[0].Value != 29 {
		t.Errorf("hits: %v; want the 10 largest, b29 first", body.TopHits)
	}
	// A refusal is a miss, not only a missing bucket.
	if len(body.TopMisses) != 10 || body.TopMisses[0].Bucket != "b0" || body.TopMisses[0].Value != 100 {
		t.Errorf("misses: %v; want the 10 largest, b0 first", body.TopMisses)
	}
	if n.top.Namespace != "dynamic" || n.top.Top != topKeys {
		t.Errorf("asked for %v", n.top)
	}
}

// TestStatsOfOneBucket checks that a bucket shows its own counts or none, and never those of a
// default that it shares.
func TestStatsOfOneBucket(t *testing.T) {
	for path, want := range map[string]string{
		"dynamic/user:42": `{"user:42":{"hits":5,"misses":6}}`,
		"dynamic/bob":     `{"bob":{"hits":5,"misses":6}}`,
		"named/one":       `{"one":{"hits":5,"misses":6}}`,
		"named/other":     `{"other":{"hits":0,"misses":0}}`,
		"fallback/x":      `{"x":{"hits":0,"misses":0}}`,
		// Terminal control characters, and a mark that reverses the text direction, are escaped.
		"dynamic/%C2%9B31m%E2%80%AE": `{"\u009b31m\u202e":{"hits":5,"misses":6}}`,
	} {
		n := &fakeNode{limits: set(t, 1, withGlobal(usual())...), rates: []*quoratev1.KeyRate{{Admitted: 5, Refused: 6}, {Admitted: 99}}}
		if got := do(n, http.MethodGet, "/api/stats/"+path).Body.String(); got != want {
			t.Errorf("%s: %s; want %s", path, got, want)
		}
	}
}

// TestConcurrentStats reads stats concurrently: quotaservice wrote its maps without a lock. Run it
// with -race.
func TestConcurrentStats(t *testing.T) {
	n := fromTheirs(t)
	h := Handler(&quiet{n})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/stats/TheBrain_userLogins", nil))
				if w.Code != http.StatusOK {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			}
		})
	}
	wg.Wait()
}
