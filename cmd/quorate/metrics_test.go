package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/golden"
	"github.com/quorate/quorate/internal/monitor"
	"github.com/quorate/quorate/internal/pki"
)

const metricLimits = `
version: 1
namespaces:
  web:
    limits:
      login: {rate: 1/s, burst: 5}
      tried: {rate: 1/s, burst: 1, enforcement: shadow}
`

const metricRules = `
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: second, requests_per_unit: 1}
`

// TestMetricsDoc checks that docs/reference/metrics.md matches the metrics of a real node, with everything
// that the test can trigger.
func TestMetricsDoc(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	redis := freePorts(t, 1)[0]
	for name, value := range map[string]string{
		"LISTEN_REDIS": redis, "PROTOCOLS_ENVOY_RLS_CONFIG": file("rules.yaml", metricRules), "PROTOCOLS_GUBERNATOR": "on",
		"PROTOCOLS_FORWARD_AUTH": "on", "METRICS_LIMITS": "1", "METRICS_TOP_KEYS": "3",
	} {
		t.Setenv("QUORATE_"+name, value)
	}
	s := newSecured(t)
	if s.run("limits", "apply", file("limits.yaml", metricLimits)) != exit.OK {
		t.Fatal(s.said.String())
	}
	for range 7 {
		s.run("allow", "web/login", "secret-key")
		s.run("allow", "web/tried", "secret-key")
	}
	s.run("allow", "web/none", "k")
	s.run("whoami", "--token-file", file("token", "quorate.x.y")) // denied
	s.rls(`{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"ann"}]}]}`)
	text := ""
	for end := time.Now().Add(time.Minute); !strings.Contains(text, "quorate_top_key_demand_tokens{") && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		text = strings.TrimPrefix(s.get(s.http, "/metrics", "", true), "200 ") // until the key has been reported
	}
	for _, want := range []string{`quorate_decisions_total{limit="@other",namespace="@other"`, "quorate_limits_without_series 1\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics.limits is 1, and there is no %s", want)
		}
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v %v", problems, err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	const page = "../../docs/reference/metrics.md"
	catalogue, err := monitor.Read(page)
	if err != nil {
		t.Fatal(err)
	}
	checkCatalogue(t, catalogue, families)
	help := map[string]string{}
	for name, f := range families {
		help[name] = f.GetHelp()
	}
	golden.Hold(t, page, catalogue.WithHelp(help), *rewrite)
}

// rls sends a request in the form of envoyproxy/ratelimit.
func (s *secured) rls(body string) {
	s.t.Helper()
	files := pki.Files{CA: filepath.Join(s.dir, "admin", "ca.crt"), Cert: filepath.Join(s.dir, "admin", "client.crt"), Key: filepath.Join(s.dir, "admin", "client.key")}
	store, err := pki.OpenFiles(files, pki.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: store.ClientConfig(pki.Want{Host: "127.0.0.1"})}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "https://"+s.http+"/json", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	if answer, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusOK {
		s.t.Fatalf("%d %s", res.StatusCode, answer)
	}
}

// checkCatalogue compares metric families with their catalogue lines: type, labels, and number of
// series.
func checkCatalogue(t *testing.T, catalogue *monitor.Catalogue, families map[string]*dto.MetricFamily) {
	t.Helper()
	for _, f := range catalogue.Metrics {
		have := families[f.Name]
		if have == nil {
			t.Errorf("%s is in the catalogue, and the node does not show it", f.Name)
			continue
		}
		if got := strings.ToLower(have.GetType().String()); got != f.Type {
			t.Errorf("%s is a %s; the catalogue says %s", f.Name, got, f.Type)
		}
		if n := len(have.GetMetric()); n > f.Most {
			t.Errorf("%s has %d series; at most %d", f.Name, n, f.Most)
		}
		checkLabels(t, f, have)
	}
	for name := range families {
		if strings.HasPrefix(name, "quorate_") && catalogue.Metric(name) == nil {
			t.Errorf("%s is not in docs/reference/metrics.md: add it, and what to do about it", name)
		}
	}
}

func checkLabels(t *testing.T, f *monitor.Metric, have *dto.MetricFamily) {
	t.Helper()
	want := slices.Sorted(slices.Values(f.Labels))
	for _, m := range have.GetMetric() {
		var got []string
		for _, l := range m.GetLabel() {
			got = append(got, l.GetName())
			if strings.Contains(l.GetValue(), "secret") && l.GetName() != "key" {
				t.Errorf("%s: the label %s has a caller's key: %s", f.Name, l.GetName(), l.GetValue())
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s has the labels %v; the catalogue says %v", f.Name, got, want)
		}
	}
}
