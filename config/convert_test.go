package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/golden"
	"github.com/quorate/quorate/internal/quota"
)

// TestConvert reads testdata/convert/*.{good,bad}.yaml, whose names begin with the form. The .txt
// beside each has the exact error of a bad file, or the limit file and the notes of a good one.
func TestConvert(t *testing.T) {
	files, err := filepath.Glob("testdata/convert/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		source := filepath.Base(file)
		from, _, _ := strings.Cut(source, "_")
		isBad := strings.HasSuffix(file, ".bad.yaml")
		seen[from+map[bool]string{true: " bad", false: " good"}[isBad]] = true
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Convert(from, source, data)
		if (err != nil) != isBad {
			t.Errorf("%s: %v", source, err)
			continue
		}
		text := string(got.YAML)
		for _, n := range got.Notes {
			text += "# " + n.String() + "\n"
		}
		if isBad {
			text = err.Error() + "\n"
		} else {
			checkConverted(t, source, got)
		}
		golden.Hold(t, strings.TrimSuffix(file, ".yaml")+".txt", text, *rewrite)
	}
	for _, from := range ConvertFrom() {
		if !seen[from+" good"] || !seen[from+" bad"] {
			t.Errorf("%s has no good or no bad file", from)
		}
	}
}

// checkConverted requires valid limits, and a limit file with the same limits.
func checkConverted(t *testing.T, source string, got Converted) {
	t.Helper()
	if _, err := quota.NewLimits(1, got.Limits); err != nil {
		t.Errorf("%s: %v", source, err)
	}
	again, err := ParseLimits(source, got.YAML)
	if err != nil || !slices.EqualFunc(got.Limits, again, func(a, b quota.Limit) bool { return a.Equal(&b) }) {
		t.Errorf("%s: the limit file says otherwise, %v:\n%s", source, err, got.YAML)
	}
}

func TestConvertUnknown(t *testing.T) {
	_, err := Convert("kong", "f", nil)
	if want := `from: is "kong"; must be one of quotaservice, envoy-ratelimit, slas`; err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

func FuzzConvert(f *testing.F) {
	addGolden(f, "testdata/convert/*.yaml")
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, from := range ConvertFrom() {
			got, err := Convert(from, "f", data)
			if err != nil {
				checkFaults(t, data, err)
				continue
			}
			checkConverted(t, from, got)
		}
	})
}

// String returns path: what; do, without empty parts.
func (n Note) String() string {
	s := n.What
	if n.Path != "" {
		s = n.Path + ": " + s
	}
	if n.Do != "" {
		s += "; " + n.Do
	}
	return s
}
