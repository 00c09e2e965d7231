package server

import (
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/series"
)

// notShown maps settings that the console's page leaves out to the reasons.
var notShown = map[string]string{
	"limits": "counts only while a cluster has none", "nodes": "the membership is what counts", "join": "counts once", "token_file": "counts once", "bootstrap": "counts once",
	"advertise": "the membership has it", "listen.hosts": "a detail of listening", "linger": "counts when the node stops", "log.level": "is in the log", "log.format": "is in the log",
	"tls.ca": "a file", "tls.cert": "a file", "tls.key": "a file", "tls.ca_key": "a file",
	"protocols.envoy_rls_config": "a file", "protocols.envoy_rls_headers": "a detail of a protocol", "protocols.envoy_rls_overrides": "a detail of a protocol",
	"auth.oidc.audience": "a detail of the issuer", "auth.oidc.identity_claim": "a detail of the issuer", "auth.oidc.groups_claim": "a detail of the issuer",
	"access.bindings": "the page of access has them", "access.grants": "the page of access has them",
}

// TestShownSettings checks that the console shows every setting under its own name, except those
// left out with a reason.
func TestShownSettings(t *testing.T) {
	ports, err := listen(t.Context(), "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ports.close()
	cfg := cluster.Config{Series: series.New(7)}
	var names []string
	variable := func(name string) string { return "QUORATE_" + strings.ToUpper(strings.ReplaceAll(name, ".", "_")) }
	for _, s := range shownSettings(&cfg, &callers{}, &security{}, &ports) {
		names = append(names, variable(s.Name))
		if s.About == "" || notShown[s.Name] != "" {
			t.Errorf("%s: about %q, left out since it %q", s.Name, s.About, notShown[s.Name])
		}
	}
	for name := range notShown {
		names = append(names, variable(name))
	}
	for _, v := range config.Variables() {
		if !slices.Contains(names, v) {
			t.Errorf("%s is neither shown nor left out with a reason", v)
		}
	}
	if len(names) != len(config.Variables()) {
		t.Errorf("%d names of %d settings: %v", len(names), len(config.Variables()), names)
	}
}
