package clients

import (
	"context"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/attach"
	"github.com/quorate/quorate/internal/fairshare"
	"github.com/quorate/quorate/internal/quota"
)

// TestSettlementsAreShared checks that the processes of one identity leave others some of the memory for
// final reports, and that it is free again when they have gone.
func TestSettlementsAreShared(t *testing.T) {
	all := fairshare.NewPerFree(maxAllSettling)
	key := strings.Repeat("k", 8<<20) // every part has the same, so the test needs it once
	var sessions []*settling
	begin := func(owner string) int64 {
		q := &settling{all: all, owner: owner, cancel: func() {}, ctx: context.Background()}
		sessions = append(sessions, q)
		for part := 1; part <= 7; part++ { // the last part does not arrive
			q.add(&attach.Settlement{Part: part, Parts: 8, Report: quota.Report{Term: 1, Entries: []quota.ReportEntry{{Key: quota.Key{Key: key}}}}})
			if q.begun.incomplete {
				return 0
			}
		}
		return q.bytes
	}
	for range 20 {
		begin("a")
	}
	if held := all.Held(); held > maxAllSettling/8*7+settlementSize(&quota.Report{Entries: []quota.ReportEntry{{Key: quota.Key{Key: key}}}}) || held < maxAllSettling/2 {
		t.Errorf("one identity has %d bytes of %d; want at most seven eighths, and one part more", held, maxAllSettling)
	}
	if begin("b") == 0 {
		t.Error("another identity finds no room")
	}
	for _, q := range sessions {
		q.end()
	}
	if held := all.Held(); held != 0 {
		t.Errorf("%d bytes are held when all have gone", held)
	}
}
