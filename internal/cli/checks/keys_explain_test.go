package checks

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/cli/render"
)

// TestWhyText compares whyText with docs/reference/glossary.md.
func TestWhyText(t *testing.T) {
	b, err := os.ReadFile("../../../docs/reference/glossary.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(b), "\n## Why\n")
	if !ok {
		t.Fatal("docs/reference/glossary.md has no part Why")
	}
	documented := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (.*) \\|$").FindAllStringSubmatch(table, -1) {
		documented[m[1]] = strings.ReplaceAll(m[2], "`", "")
	}
	for n := range quoratev1.Why_name {
		w := render.Word(quoratev1.Why(n))
		if n == 0 {
			w = "unknown"
		}
		if whyText[w] == "" || whyText[w] != documented[w] {
			t.Errorf("%s: the command says %q, docs/reference/glossary.md %q", w, whyText[w], documented[w])
		}
	}
}

// TestShadowMark checks that shadow refusals are marked.
func TestShadowMark(t *testing.T) {
	for mode, want := range map[quoratev1.Enforcement]bool{quoratev1.Enforcement_ENFORCEMENT_UNSPECIFIED: false, quoratev1.Enforcement_ENFORCEMENT_ENFORCE: false, quoratev1.Enforcement_ENFORCEMENT_SHADOW: true} {
		rule := &quoratev1.Limit{Rate: "10/s", Burst: 20, Kind: quoratev1.Kind_KIND_BUCKET, Enforcement: mode}
		var out strings.Builder
		err := render.WritePage(&out, func(p *render.Page) {
			printKey(p, &quoratev1.GetKeyResponse{Counters: []*quoratev1.KeyRate{{Namespace: "a", Limit: "b", Key: "k", Rule: rule}}})
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(out.String(), "10/s burst 20 shadow"); got != want {
			t.Errorf("%v: %s", mode, out.String())
		}
	}
}

// TestKeyStanding checks the explanation of keys that are refused, owe, or would be refused.
func TestKeyStanding(t *testing.T) {
	rule := &quoratev1.Limit{Rate: "10/s", Burst: 20, Kind: quoratev1.Kind_KIND_BUCKET}
	shadow := &quoratev1.Limit{Rate: "10/s", Burst: 20, Kind: quoratev1.Kind_KIND_BUCKET, Enforcement: quoratev1.Enforcement_ENFORCEMENT_SHADOW}
	hard := &quoratev1.Limit{Rate: "10/s", Burst: 20, Kind: quoratev1.Kind_KIND_BUCKET, Ceiling: quoratev1.Ceiling_CEILING_HARD}
	for name, c := range map[string]struct {
		counter *quoratev1.KeyRate
		now     *quoratev1.AllowResponse
		want    []string
	}{
		"used up": {
			&quoratev1.KeyRate{Namespace: "a", Limit: "b", Key: "k", Rule: rule, Refused: 7, Members: 2, Leader: "n2"},
			&quoratev1.AllowResponse{Why: quoratev1.Why_WHY_OVER_LIMIT, RetryAfter: durationpb.New(350 * time.Millisecond), ResetAfter: durationpb.New(2 * time.Second)},
			[]string{"0 of 20 left, reported by 2 nodes", "7 refused since leader n2", "refused: over_limit", "the global limit is used up for now", "a token in 350ms", "in 2s, without"},
		},
		"hard": {
			&quoratev1.KeyRate{Namespace: "a", Limit: "b", Key: "k", Rule: hard, Remaining: 9},
			&quoratev1.AllowResponse{Allowed: true, Why: quoratev1.Why_WHY_HELD},
			[]string{"10/s burst 20, ceiling: hard", "allowed: held", "admitted, out of tokens that the node held"},
		},
		"in debt": {
			&quoratev1.KeyRate{Namespace: "a", Limit: "b", Key: "k", Rule: rule, Remaining: -12},
			&quoratev1.AllowResponse{Why: quoratev1.Why_WHY_USE_ACQUIRE},
			[]string{"12 owed", "use acquire and release", "never, "},
		},
		"shadow": {
			&quoratev1.KeyRate{Namespace: "a", Limit: "b", Key: "k", Rule: shadow},
			&quoratev1.AllowResponse{Allowed: true, Shadow: true, Why: quoratev1.Why_WHY_OVER_LIMIT},
			[]string{"shadow: refuses nothing", "allowed, because the limit is not enforced: over_limit"},
		},
		"may not ask": {&quoratev1.KeyRate{Namespace: "a", Limit: "b", Key: "k", Rule: rule, Remaining: 3}, nil, []string{"3 of 20 left"}},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			e := keyStanding{key: &quoratev1.GetKeyResponse{Counters: []*quoratev1.KeyRate{c.counter}}, now: c.now}
			if err := render.WritePage(&out, func(p *render.Page) { e.print(p, "a/b", "k") }); err != nil {
				t.Fatal(err)
			}
			for _, w := range c.want {
				if !strings.Contains(out.String(), w) {
					t.Errorf("%s\nlacks %q", out.String(), w)
				}
			}
		})
	}
}
