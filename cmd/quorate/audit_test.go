package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/audit"
	"github.com/quorate/quorate/internal/buftest"
	"github.com/quorate/quorate/internal/cli"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/server"
)

// TestAuditIsFollowed checks that all files are printed in order, then what is appended, including
// what goes into the next file after a rotation.
func TestAuditIsFollowed(t *testing.T) {
	dir := t.TempDir()
	log, err := audit.Open(audit.Options{Path: filepath.Join(dir, server.AuditFile), MaxBytes: 650, Keep: 5})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	write := func(names ...string) {
		for _, name := range names {
			log.Write(audit.Entry{Node: "n1", Identity: "client:" + name, Method: "m", What: `a="b" change=NODE_CHANGE_DRAIN`, Result: audit.Failed, Detail: "why\nnot"})
		}
	}
	write("a", "b", "c", "d")
	var out, errs bytes.Buffer
	if code := cli.Run(t.Context(), []string{"audit", "--data", dir}, &out, &errs); code != exit.OK {
		t.Fatal(errs.String())
	}
	if got := identities(out.String()); got != "abcd" || !strings.Contains(out.String(), `n1 client:a tried to call m (a: "b", change: drain): failed: "why`) || strings.Count(out.String(), "\n") != 4 {
		t.Errorf("%q: %s", got, out.String())
	}
	var followed buftest.Buffer
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

// TestAuditAsCSV checks that programs read each entry as one row, whatever is in it, and that a line that is no entry
// is named in a message.
func TestAuditAsCSV(t *testing.T) {
	dir := t.TempDir()
	log := `{"time":"2026-11-27T12:00:00Z","node":"=n1","identity":"a","method":"M","what":"x, \"y\"\nz","result":"ok"}` + "\nno entry\n" +
		`{"time":"2026-11-27T12:00:01Z","node":"n2","identity":"b","method":"M","result":"denied","detail":"-1+1"}` + "\n"
	if err := os.WriteFile(filepath.Join(dir, "audit.log"), []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if code := cli.Run(t.Context(), []string{"audit", "--data", dir, "-o", "csv"}, &out, &errs); code != exit.OK {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil || len(rows) != 3 {
		t.Fatalf("%d rows, %v: %q; want the titles and two entries", len(rows), err, rows)
	}
	if rows[0][0] != "time" || rows[1][1] != "'=n1" || rows[1][7] != "x, \"y\"\nz" || rows[2][10] != "'-1+1" {
		t.Errorf("rows %q", rows)
	}
	if !strings.Contains(errs.String(), "not an audit entry: no entry") {
		t.Errorf("messages %q; want the line that is no entry", errs.String())
	}
}
