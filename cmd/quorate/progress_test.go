package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestBarText(t *testing.T) {
	for _, c := range []struct {
		done, total int64
		want        string
	}{
		{0, 0, ""},
		{5, -1, ""},
		{0, 8, "[........................]   0 %  "},
		{4, 8, "[############............]  50 %  "},
		{-1, 8, "[........................]   0 %  "},
		{9, 8, "[########################] 100 %  "},
		{999, 1000, "[#######################.] 100 %  "},
	} {
		if got := barText(c.done, c.total); got != c.want {
			t.Errorf("%d of %d: %q; want %q", c.done, c.total, got, c.want)
		}
	}
}

// TestProgressIsForTerminals: nothing in a file or a pipe, nor where a line cannot be written
// over; on a terminal a line that is gone in the end.
func TestProgressIsForTerminals(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(&b)
	p.bar(1, 2, "x")
	p.end()
	if b.Len() > 0 {
		t.Errorf("in a pipe: %q", b.String())
	}
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("this machine has no terminals:", err)
	}
	defer terminal.Close()
	t.Setenv("TERM", "dumb")
	if p := newProgress(terminal); p.w != nil {
		t.Error("a terminal that cannot write a line over")
	}
	t.Setenv("TERM", "xterm")
	if p = newProgress(terminal); p.w == nil {
		t.Fatal("nothing on a terminal")
	}
	p.w, p.last = io.Writer(&b), p.last.Add(-1e9)
	p.bar(1, 2, "%d of %d groups", 1, 2)
	p.bar(2, 2, "too soon")
	p.end()
	if want := "\r\x1b[K[############............]  50 %  1 of 2 groups\r\x1b[K"; b.String() != want {
		t.Errorf("%q; want %q", b.String(), want)
	}
}

// TestCompletionScripts: the shells that are here read what is for them.
func TestCompletionScripts(t *testing.T) {
	for shell, args := range map[string][]string{"bash": {"-n"}, "zsh": {"-n"}, "fish": {"--no-execute"}} {
		t.Run(shell, func(t *testing.T) {
			var b bytes.Buffer
			if code := run(t.Context(), []string{"completion", shell}, &b, &b); code != exitOK || !strings.Contains(b.String(), "__complete") {
				t.Fatalf("%d: %.200s", code, b.String())
			}
			path, err := exec.LookPath(shell)
			if err != nil {
				return // its script is the library's, and was made
			}
			cmd := exec.CommandContext(t.Context(), path, args...)
			cmd.Stdin = &b
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
