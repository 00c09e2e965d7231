package envoy

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/quorate/quorate/config"
)

const (
	goodRules = "domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: day, requests_per_unit: 5}}\n"
	badRules  = "domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: dya, requests_per_unit: 5}}\n"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// rulesIn returns the numbers of the rules of domain d.
func rulesIn(r *Rules, domain string) int {
	tree, _ := r.tree(domain)
	return len(tree.Rules())
}

func TestSource(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if _, err := NewSource(path, prometheus.NewRegistry(), config.ParseEnvoyRateLimits); err == nil {
		t.Error("a file that is not there was read")
	}
	write(t, path, badRules)
	if _, err := NewSource(path, prometheus.NewRegistry(), config.ParseEnvoyRateLimits); err == nil || !strings.Contains(err.Error(), "rules.yaml:3:33: descriptors[0].rate_limit.unit: is \"dya\"") {
		t.Errorf("a bad file: %v", err)
	}
	write(t, path, goodRules)
	s, err := NewSource(path, prometheus.NewRegistry(), config.ParseEnvoyRateLimits)
	if err != nil || rulesIn(s.Rules(), "d") != 1 {
		t.Fatalf("%v, %+v", err, s)
	}
	for _, tc := range []struct {
		text    string
		changed bool
		want    string // the error
		rules   int    // active afterwards
	}{
		{goodRules, false, "", 1},
		{goodRules + "  - {key: b}\n", true, "", 2},
		{badRules, false, "unit: is \"dya\"", 2},
		{badRules, false, "", 2}, // logged once
		{goodRules + "---\n" + goodRules, false, "is the namespace d, as that of line 1 is", 2},
		{goodRules + "---\ndomain: e\n", true, "", 1},
	} {
		write(t, path, tc.text)
		changed, err := s.Reload()
		if changed != tc.changed || (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) || rulesIn(s.Rules(), "d") != tc.rules {
			t.Errorf("%q: changed %v, %v, %d rules; want %v, %q, %d", tc.text, changed, err, rulesIn(s.Rules(), "d"), tc.changed, tc.want, tc.rules)
		}
	}
	for result, want := range map[string]float64{"ok": 3, "refused": 2} {
		if got := testutil.ToFloat64(s.loads.WithLabelValues(result)); got != want {
			t.Errorf("%v loads are %s, want %v", got, result, want)
		}
	}
}

func TestSourceDirectory(t *testing.T) {
	dir := t.TempDir()
	if _, err := NewSource(dir, prometheus.NewRegistry(), config.ParseEnvoyRateLimits); err == nil || !strings.Contains(err.Error(), "has no .yaml or .yml file") {
		t.Errorf("an empty directory: %v", err)
	}
	write(t, filepath.Join(dir, "1.yaml"), goodRules)
	write(t, filepath.Join(dir, "2.yml"), strings.Replace(goodRules, "domain: d", "domain: 'my d'", 1))
	write(t, filepath.Join(dir, "readme.txt"), "not one")
	write(t, filepath.Join(dir, ".3.yaml"), "not one")
	s, err := NewSource(dir, prometheus.NewRegistry(), config.ParseEnvoyRateLimits)
	if err != nil || rulesIn(s.Rules(), "d") != 1 || rulesIn(s.Rules(), "my d") != 1 || rulesIn(s.Rules(), "my-d") != 0 {
		t.Fatalf("%v, %+v", err, s.Rules())
	}
	for _, tc := range []struct{ domain, want string }{
		{"my-d", `4.yaml: domain "my-d" is the namespace my-d, as the domain "my d" of ` + filepath.Join(dir, "2.yml")},
		{"d", `4.yaml: domain "d" is the namespace d, as the domain "d" of ` + filepath.Join(dir, "1.yaml")},
	} {
		write(t, filepath.Join(dir, "4.yaml"), strings.Replace(goodRules, "domain: d", "domain: "+tc.domain, 1))
		if _, err := s.Reload(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("two files of one namespace: %v; want %s", err, tc.want)
		}
	}
}

// TestSourceRun checks that a change is read within some seconds, or at once when asked, and that
// an error is logged once.
func TestSourceRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, path, goodRules)
	synctest.Test(t, func(t *testing.T) {
		s, err := NewSource(path, prometheus.NewRegistry(), config.ParseEnvoyRateLimits)
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		ctx, stop := context.WithCancel(t.Context())
		asked := make(chan os.Signal, 1)
		go s.Run(ctx, asked, slog.New(slog.NewTextHandler(&log, nil)))
		write(t, path, goodRules+"  - {key: b}\n")
		time.Sleep(reloadEvery)
		synctest.Wait()
		if rulesIn(s.Rules(), "d") != 2 {
			t.Error("a change was not read")
		}
		write(t, path, badRules)
		asked <- os.Interrupt
		synctest.Wait()
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * reloadEvery)
		stop()
		synctest.Wait()
		for want, n := range map[string]int{"were read again": 1, "level=ERROR": 2, "must be second": 1, syscall.ENOENT.Error(): 1} {
			if got := strings.Count(log.String(), want); got != n {
				t.Errorf("%q is there %d times, want %d:\n%s", want, got, n, log.String())
			}
		}
		if rulesIn(s.Rules(), "d") != 2 {
			t.Error("the rules before the bad ones are gone")
		}
	})
}

func TestHits(t *testing.T) {
	reg := prometheus.NewRegistry()
	hits := NewHits(reg)
	c, _ := asIs(t, `
domain: d
descriptors:
  - {key: plain, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: detailed, detailed_metric: true, rate_limit: {unit: day, requests_per_unit: 5}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 0}}
  - key: route
    value_to_metric: true
    descriptors:
      - {key: user, rate_limit: {unit: day, requests_per_unit: 9}}
  - {key: file, value: f*, share_threshold: true, detailed_metric: true, rate_limit: {unit: day, requests_per_unit: 9}}
  - {key: free, rate_limit: {unlimited: true}}
`, func(o *Options) { o.Hits = hits })
	for _, text := range []string{
		"plain=1", "plain=1", "plain=1", "plain=2 #0", "plain=2 #-1", "detailed=1 #3", "detailed=2", "shadow=1", "route=r, user=u", "file=f1", "free=1", "nobody=1",
	} {
		ask(t, c, "d", 0, text)
	}
	want := `
# HELP quorate_envoy_rls_hits_total Hits of the rules from envoyproxy/ratelimit files, by domain, rule and result: within, near, over or shadow.
# TYPE quorate_envoy_rls_hits_total counter
quorate_envoy_rls_hits_total{domain="d",result="near",rule="plain"} 1
quorate_envoy_rls_hits_total{domain="d",result="over",rule="plain"} 1
quorate_envoy_rls_hits_total{domain="d",result="shadow",rule="shadow"} 1
quorate_envoy_rls_hits_total{domain="d",result="within",rule="detailed=1"} 3
quorate_envoy_rls_hits_total{domain="d",result="within",rule="detailed=2"} 1
quorate_envoy_rls_hits_total{domain="d",result="within",rule="file=f*"} 1
quorate_envoy_rls_hits_total{domain="d",result="within",rule="plain"} 1
quorate_envoy_rls_hits_total{domain="d",result="within",rule="route=r, user"} 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// TestHitsAreBounded checks that values of requests cannot create an unbounded number of series.
func TestHitsAreBounded(t *testing.T) {
	reg := prometheus.NewRegistry()
	hits := NewHits(reg)
	rules := rulesOf(t, "domain: d\ndescriptors:\n  - {key: a, detailed_metric: true, rate_limit: {unit: day, requests_per_unit: 5}}\n")
	n := newNode(t)
	s := New(n, Options{Rules: func() *Rules { return rules }, Hits: hits, Headers: HeadersNone})
	for i := range maxDetailed + 200 {
		if _, err := s.ShouldRateLimit(t.Context(), &request{Domain: "d", Descriptors: []*commonv3.RateLimitDescriptor{desc("a=" + strconv.Itoa(i) + strings.Repeat("ü", 200))}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := testutil.CollectAndCount(hits.total); got > maxDetailed+1 {
		t.Errorf("%d series", got)
	}
}
