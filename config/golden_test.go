package config

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/golden"
	"github.com/quorate/quorate/internal/quota"
)

var rewrite = flag.Bool("rewrite", false, "write what the parsers say into testdata; then read the diff")

// goldenNow is the time against which golden overrides expire: 2026-11-21.
const goldenNow = quota.Time(1795219200e9)

// TestGolden reads testdata/{limits,node,overrides,policies,ops}-*.{good,bad}.yaml. The .txt beside
// each has the exact error of a bad file, or the contents of a good one.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	bad := 0
	for _, file := range files {
		source := filepath.Base(file)
		t.Run(source, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := describeFile(source, data)
			isBad := strings.HasSuffix(file, ".bad.yaml")
			if (err != nil) != isBad {
				t.Fatalf("error: %v", err)
			}
			if isBad {
				bad++
				got = err.Error() + "\n"
			}
			golden.Hold(t, strings.TrimSuffix(file, ".yaml")+".txt", got, *rewrite)
		})
	}
	if bad < 25 {
		t.Errorf("%d bad files; want 25 or more", bad)
	}
}

// describeFile reads a file, of a kind that its name gives, and writes its contents.
func describeFile(source string, data []byte) (string, error) {
	if strings.HasPrefix(source, "limits-") {
		limits, err := ParseLimits(source, data)
		return string(FormatLimits(limits)), err
	}
	if strings.HasPrefix(source, "overrides-") {
		overrides, err := ParseOverrides(source, data, goldenNow)
		return string(FormatOverrides(overrides)), err
	}
	if strings.HasPrefix(source, "policies-") {
		policies, err := ParsePolicies(source, data)
		return string(FormatPolicies(policies)), err
	}
	if strings.HasPrefix(source, "ops-") {
		ops, err := ParseOps(source, data, account.ConfigID{App: "cv", Realm: "project:infra"})
		return describeOps(ops), err
	}
	n, err := ParseNode(source, data)
	return describeNode(n), err
}

func describeOps(o Ops) string {
	text := fmt.Sprintf("%s for %v\n", o.RequestID, o.TTL)
	for _, op := range o.Ops {
		text += fmt.Sprintf("%s %s%+d options %d", FormatAccountID(op.Account), RelativeToWord(op.RelativeTo), op.Delta, op.Options)
		if op.Policy != nil {
			text += " policy " + FormatPolicyRef(*op.Policy, account.ConfigID{})
		}
		text += "\n"
	}
	return text
}

func describeNode(n Node) string {
	return filepath.ToSlash(strings.ReplaceAll(fmt.Sprintf("%+v\n", n), " ", "\n"))
}
