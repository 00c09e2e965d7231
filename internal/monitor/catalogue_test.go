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

func catalogue(t *testing.T) *Catalogue {
	t.Helper()
	c, err := Read(filepath.Join(root, "docs", "reference", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Metrics) < 70 {
		t.Fatalf("only %d metrics are found", len(c.Metrics))
	}
	return c
}

// TestEveryMetricIsInTheCatalogue looks for names of metrics in the sources: those too that
// a test's node does not show. The client's are its users', and documented there, as are those
// of a history that is exported.
func TestEveryMetricIsInTheCatalogue(t *testing.T) {
	named := regexp.MustCompile(`"(quorate_[a-z_]+)"`)
	known := map[string]bool{}
	for _, m := range catalogue(t).Metrics {
		if known[m.Name] {
			t.Errorf("%s is there twice", m.Name)
		}
		known[m.Name] = true
	}
	found := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains([]string{".git", "testdata", "bench", "client", "monitor", "tools"}, d.Name()) || strings.HasSuffix(filepath.ToSlash(path), "internal/history/export")):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		data, err := os.ReadFile(path)
		for _, m := range named.FindAllStringSubmatch(string(data), -1) {
			if found[m[1]] = true; !known[m[1]] {
				t.Errorf("%s names the metric %s, which is not in docs/reference/metrics.md", path, m[1])
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range known {
		if !found[name] {
			t.Errorf("%s is in docs/reference/metrics.md, and nothing in the sources names it", name)
		}
	}
}

// TestPagesNameMetrics checks that every metric that a page names is in the catalogue, or is one of the
// client's or of an exported history.
func TestPagesNameMetrics(t *testing.T) {
	known := map[string]bool{}
	for _, m := range catalogue(t).Metrics {
		known[m.Name] = true
	}
	source := regexp.MustCompile(`"(quorate_[a-z_]+)"`)
	for _, dir := range []string{"client", "internal/history/export"} {
		for _, text := range files(t, filepath.Join(root, dir), ".go") {
			for _, m := range source.FindAllStringSubmatch(text, -1) {
				known[m[1]] = true
			}
		}
	}
	named := regexp.MustCompile("`(quorate_[a-z_]+?)(_bucket|_sum|_count)?[`{]")
	for path, text := range files(t, filepath.Join(root, "docs"), ".md") {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			if !known[m[1]] && !known[m[1]+m[2]] {
				t.Errorf("%s names the metric %s, which does not exist", path, m[1]+m[2])
			}
		}
	}
}

// files returns the texts of the files below dir whose names end in suffix.
func files(t *testing.T, dir, suffix string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, suffix) {
			return err
		}
		data, err := os.ReadFile(path)
		out[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestCardinality holds the catalogue to its own rules: every label has a bound, none is a key
// but where an operator asks for a few, and a node stays far below what a Prometheus can keep.
func TestCardinality(t *testing.T) {
	const most = 400_000 // series of a node with 1000 limits, all outcomes seen
	sum := 0
	for _, m := range catalogue(t).Metrics {
		if m.Help == "" || m.Action == "" || m.Unit == "" || !slices.Contains([]string{"counter", "gauge", "histogram"}, m.Type) {
			t.Errorf("%s is not whole: %+v", m.Name, *m)
		}
		if strings.HasSuffix(m.Name, "_total") != (m.Type == "counter") {
			t.Errorf("%s is a %s", m.Name, m.Type)
		}
		if m.Most < 1 || len(m.Bounds) != len(m.Labels) {
			t.Errorf("%s has the labels %v, and bounds for %v: at most %d series", m.Name, m.Labels, m.Bounds, m.Most)
		}
		for _, l := range m.Labels {
			if m.Bounds[l] == "" {
				t.Errorf("%s{%s} has no bound", m.Name, l)
			}
			if strings.Contains(l, "key") && m.Name != "quorate_top_key_demand_tokens" {
				t.Errorf("%s has a label for keys", m.Name)
			}
		}
		sum += m.Most
	}
	if sum > most {
		t.Errorf("%d series; at most %d", sum, most)
	}
	t.Logf("at most %d series at one node", sum)
}
