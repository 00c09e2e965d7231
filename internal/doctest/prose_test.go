package doctest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// plainPages are written in plain technical English; TestProse keeps them so.
var plainPages = []string{
	"README.md", "docs/README.md", "docs/tutorial.md", "docs/ARCHITECTURE.md",
	"docs/explanation/compared.md", "docs/explanation/concepts.md", "docs/explanation/durable-quotas.md", "docs/explanation/faq.md", "docs/explanation/security.md",
	"docs/howto/README.md", "docs/howto/clients.md", "docs/howto/console.md", "docs/howto/containers.md", "docs/howto/envoy.md",
	"docs/howto/from-envoy-ratelimit.md", "docs/howto/from-gubernator.md", "docs/howto/from-quotaservice.md", "docs/howto/from-redis.md",
	"docs/howto/http.md", "docs/howto/kubernetes.md", "docs/howto/middleware.md", "docs/howto/migrating.md", "docs/howto/nginx.md",
	"docs/howto/operating.md", "docs/howto/planning.md", "docs/howto/production.md", "docs/howto/sizing.md", "docs/howto/systemd.md",
	"docs/reference/alerts.md", "docs/reference/cli.md", "docs/reference/limits.md", "docs/reference/metrics.md", "docs/reference/settings.md",
	"docs/reference/stability.md",
}

// tics are phrases that hide who does what, with better words. Only phrases that are never the best
// choice belong here.
var tics = []struct{ phrase, better string }{
	{`(is|are|was|were|be|been) told`, "receives, is notified; or say what is returned"},
	{`tells|tell (how|what|who|when|which)`, "returns, reports, shows"},
	{`in force`, "active, current"},
	{`whoever|who may`, "anyone who; callers with permission"},
	{`there (is|are|was|were) none`, "not found, unknown; or name what is missing"},
	{`is none( of)?`, "is not"},
	{`anew`, "again"},
	{`for ever`, "permanently, never"},
	{`meanwhile`, "during this, at the same time"},
	{`as good as new`, "reset"},
	{`so many at a time`, "a concurrency limit"},
	{`(goes|go|going) on`, "continues"},
	{`what there is|what is not`, "the noun"},
	{`says? of (itself|themselves)`, "reports"},
}

// TestProse finds phrases in the pages for users that plain words replace.
func TestProse(t *testing.T) {
	all := make([]*regexp.Regexp, len(tics))
	for i, tic := range tics {
		all[i] = regexp.MustCompile(`(?i)\b(` + tic.phrase + `)\b`)
	}
	for _, name := range plainPages {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		code := false
		for n, line := range strings.Split(string(text), "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				code = !code
			}
			if code {
				continue
			}
			for i, re := range all {
				if found := re.FindString(inlineCode.ReplaceAllString(line, "")); found != "" {
					t.Errorf("%s:%d: %q: write %s", name, n+1, found, tics[i].better)
				}
			}
		}
	}
}

var inlineCode = regexp.MustCompile("`[^`]*`")
