package doctest

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/golden"
)

// TestFigures checks that every marked number in the pages agrees with the file of results that has
// it. With -rewrite it sets them.
func TestFigures(t *testing.T) {
	fsys := os.DirFS(root)
	figures, err := Figures(fsys)
	if err != nil {
		t.Fatal(err)
	}
	marks := 0
	for _, p := range pages(t, fsys) {
		text, err := fs.ReadFile(fsys, p.Name)
		if err != nil {
			t.Fatal(err)
		}
		want, count, err := SetFigures(string(text), figures)
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
			continue
		}
		marks += count
		if n := strings.Count(string(text), "<!-- ="); n != count {
			t.Errorf("%s: %d of %d marks of figures have no number before them", p.Name, n-count, n)
		}
		if count > 0 {
			golden.Hold(t, filepath.Join(root, p.Name), want, *rewrite)
		}
	}
	if marks < 10 {
		t.Errorf("%d marked figures; there are more", marks)
	}
}

func TestRoundLike(t *testing.T) {
	for _, one := range []struct {
		shown string
		value float64
		want  string
	}{
		{"1.33", 1.3339, "1.33"},
		{"0.1", 0.096, "0.1"},
		{"14", 13.84, "14"},
		{"30,000", 29905, "30,000"},
		{"30,000", 94905, "90,000"},
		{"29,905", 1234567, "1,234,567"},
		{"4900", 5123, "5100"},
		{"100", 30, "30"},
		{"0", 0, "0"},
	} {
		if got := roundLike(one.shown, one.value); got != one.want {
			t.Errorf("%v shown like %s is %s; want %s", one.value, one.shown, got, one.want)
		}
	}
}

// TestCharts checks that the README's charts show the measured figures. With -rewrite it draws them.
func TestCharts(t *testing.T) {
	figures, err := Figures(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	for name, draw := range map[string]func(map[string]float64) (string, error){"speed": SpeedChart, "accuracy": AccuracyChart} {
		svg, err := draw(figures)
		if err != nil {
			t.Fatal(err)
		}
		golden.Hold(t, filepath.Join(root, "docs/images", name+".svg"), svg, *rewrite)
	}
}
