package check

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/quorate/quorate/config"
)

// TestHowtos checks that the commands and flags in docs/howto exist, and that its limit files
// are valid.
func TestHowtos(t *testing.T) {
	files, err := filepath.Glob("../../docs/howto/*.md")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	commands, limits := 0, 0
	for _, file := range files {
		text := read(t, file)
		for _, m := range regexp.MustCompile("(?:^|`|\n[$#] )quorate ([a-z][^`\n]*)").FindAllStringSubmatch(text, -1) {
			commands++
			checkCommand(t, file, m[1])
		}
		for _, m := range regexp.MustCompile("(?s)```yaml\n(version: 1.*?)```").FindAllStringSubmatch(text, -1) {
			limits++
			if _, err := config.ParseLimits(file, []byte(m[1])); err != nil {
				t.Error(err)
			}
		}
	}
	if commands < 10 || limits < 1 {
		t.Errorf("%d commands and %d limit files were seen", commands, limits)
	}
}

// checkCommand checks that the help of a command lists the flags in line.
func checkCommand(t *testing.T, file, line string) {
	t.Helper()
	var words, flags []string
	for _, w := range strings.Fields(line) {
		switch {
		case strings.HasPrefix(w, "-"):
			flags = append(flags, w)
		case len(flags) == 0 && regexp.MustCompile(`^[a-z-]+$`).MatchString(w):
			words = append(words, w)
		}
	}
	help, err := exec.Command(staticBinary(t), append(words, "--help")...).CombinedOutput()
	if err != nil || !strings.Contains(string(help), "quorate "+words[0]) {
		t.Errorf("%s: quorate %s: there is no such command: %v\n%.200s", file, line, err, help)
	}
	for _, f := range flags {
		name, _, _ := strings.Cut(f, "=")
		if !regexp.MustCompile(`(^|[\s,])` + regexp.QuoteMeta(name) + `\b`).Match(help) {
			t.Errorf("%s: quorate %s: there is no flag %s", file, line, name)
		}
	}
}
