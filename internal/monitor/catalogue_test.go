package monitor

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// TestEveryMetricIsInTheCatalogue looks for names of metrics in the sources: those too that
// a test's node does not show. The client's are its users', and documented there, as are those
// of a history that is exported.
func TestEveryMetricIsInTheCatalogue(t *testing.T) {
	named := regexp.MustCompile(`"(quorate_[a-z_]+)"`)
	known := map[string]bool{}
	for _, f := range All() {
		if known[f.Name] {
			t.Errorf("%s is there twice", f.Name)
		}
		known[f.Name] = true
	}
	found := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains([]string{".git", "testdata", "bench", "client", "monitor", "tools"}, d.Name()) || strings.HasSuffix(path, "internal/history/export")):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		data, err := os.ReadFile(path)
		for _, m := range named.FindAllStringSubmatch(string(data), -1) {
			if found[m[1]] = true; !known[m[1]] {
				t.Errorf("%s names the metric %s, which is not in internal/monitor", path, m[1])
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range known {
		if !found[name] {
			t.Errorf("%s is in the catalogue, and nothing in the sources names it", name)
		}
	}
}

// TestCardinality holds the catalogue to its own rules: every label has a bound, none is a key
// but where an operator asks for a few, and a node stays far below what a Prometheus can keep.
func TestCardinality(t *testing.T) {
	const most = 400_000 // series of a node with 1000 limits, all outcomes seen
	sum := 0
	for _, f := range All() {
		if f.Do == "" || f.Unit == "" || !slices.Contains([]string{"counter", "gauge", "histogram"}, f.Type) {
			t.Errorf("%s: %q %q %q", f.Name, f.Type, f.Unit, f.Do)
		}
		if strings.HasSuffix(f.Name, "_total") != (f.Type == "counter") {
			t.Errorf("%s is a %s", f.Name, f.Type)
		}
		for _, l := range f.Labels {
			if l.Most < 1 || l.Bound == "" {
				t.Errorf("%s{%s} has no bound", f.Name, l.Name)
			}
			if strings.Contains(l.Name, "key") && f.Name != "quorate_top_key_demand_tokens" {
				t.Errorf("%s has a label for keys", f.Name)
			}
		}
		sum += f.Most()
	}
	if sum > most {
		t.Errorf("%d series; at most %d", sum, most)
	}
	t.Logf("at most %d series at one node", sum)
}
