package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/audit"
	"github.com/quorate/quorate/internal/cli"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/server"
)

// TestAuditIsFollowed checks that all files are printed in order, then what is appended, including
// what goes into the next file after a rotation.
func TestAuditIsFollowed(t *testing.T) {
	dir := t.TempDir()
	log, err := audit.Open(audit.Options{Path: filepath.Join(dir, server.AuditFile), MaxBytes: 600, Keep: 5})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	write := func(names ...string) {
		for _, name := range names {
			log.Write(audit.Entry{Node: "n1", Identity: "client:" + name, Method: "m", What: `a="b"`, Result: audit.Failed, Detail: "why\nnot"})
		}
	}
	write("a", "b", "c", "d")
	var out, errs bytes.Buffer
	if code := cli.Run(t.Context(), []string{"audit", "--data", dir}, &out, &errs); code != exit.OK {
		t.Fatal(errs.String())
	}
	if got := identities(out.String()); got != "abcd" || !strings.Contains(out.String(), `n1 client:a m a="b" failed: "why`) || strings.Count(out.String(), "\n") != 4 {
		t.Errorf("%q: %s", got, out.String())
	}
	var followed transcript
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan int)
	go func() {
		done <- cli.Run(ctx, []string{"audit", "--data", dir, "-f", "-o", "json"}, &followed, &followed)
	}()
	await := func(want string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); identities(followed.String()) != want; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("followed: %q; want %q", identities(followed.String()), want)
			}
		}
	}
	await("abcd")
	write("e")
	await("abcde")
	write("f")
	await("abcdef")
	stop()
	if code := <-done; code != exit.OK {
		t.Errorf("exit code %d: %s", code, followed.String())
	}
	if code := cli.Run(t.Context(), []string{"audit", "--data", t.TempDir()}, &out, &errs); code != exit.Usage || !strings.Contains(errs.String(), "no audit log") {
		t.Errorf("%d %s", code, errs.String())
	}
}

// identities returns the last letter of every identity, in order.
func identities(text string) string {
	var b strings.Builder
	for _, part := range strings.Split(text, "client:")[1:] {
		b.WriteString(part[:1])
	}
	return b.String()
}
