package server

import (
	"bytes"
	"strings"
	"testing"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/config"
)

// TestDevTry checks that the call which dev suggests fits an active limit.
func TestDevTry(t *testing.T) {
	for name, c := range map[string]struct{ limits, want string }{
		"built in":    {"web: {limits: {a: {rate: 1/s}, per_client: {rate: 1/s}}}", `"limit":"per_client","key":"203.0.113.7"}' localhost:27411/v1/allow`},
		"own":         {"shop: {limits: {jobs: {in_flight: 3}, per_user: {rate: 1/s}}}", `{"namespace":"shop","limit":"per_user","key":"ann"}' localhost:27411/v1/allow`},
		"in flight":   {"shop: {template: {rate: 1/s, max_keys: 10}, limits: {jobs: {in_flight: 3}}}", `"limit":"jobs","key":"ann"}' localhost:27411/v1/acquire`},
		"only others": {"shop: {default: {rate: 1/s}}", "  quorate limits get\n"},
	} {
		t.Run(name, func(t *testing.T) {
			limits, err := config.ParseLimits("limits.yaml", []byte("version: 1\nnamespaces: {"+c.limits+"}\n"))
			if err != nil {
				t.Fatal(err)
			}
			o := devOptions{basePort: 27400, nodes: 3}
			if got := o.tryLimit(limits); !strings.Contains(got, c.want) {
				t.Errorf("%s; want %s", got, c.want)
			}
		})
	}
}

// TestDevExport checks that dev prints the export command when the nodes are not at the default
// addresses.
func TestDevExport(t *testing.T) {
	for want, o := range map[string]devOptions{
		"": {basePort: 7400, nodes: 3},
		"  export QUORATE_ADDR=127.0.0.1:27412,127.0.0.1:27422\n": {basePort: 27400, nodes: 2},
		"  export QUORATE_ADDR=127.0.0.1:7412\n":                  {basePort: 7400, nodes: 1},
	} {
		if got := o.export(); !strings.HasSuffix(got, want) || want == "" && got != "" {
			t.Errorf("%d nodes at %d: %q; want %q", o.nodes, o.basePort, got, want)
		}
	}
}

// TestFlowIsPlain checks that control characters in a key do not reach the terminal.
func TestFlowIsPlain(t *testing.T) {
	var b bytes.Buffer
	evil := "k\x1b]0;owned\a\u009b31m\u202e"
	printFlow(&b, time.Now(), &quoratev1.TopRatesResponse{Keys: []*quoratev1.KeyRate{{Namespace: "web", Limit: "login", Key: evil, Demand: 3, Rule: &quoratev1.Limit{Rate: "1/s"}}}})
	if got := b.String(); strings.ContainsAny(got, "\x1b\a\u009b\u202e") || !strings.Contains(got, `owned`) {
		t.Errorf("%q", got)
	}
}
