package aggregator

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/quota"
)

// TestReportsAreBounded checks that a report of long keys is cut by its size, and not only by the number of keys.
func TestReportsAreBounded(t *testing.T) {
	r := newRig(t, Config{MaxEntries: maxEntries, MaxKeys: 2 * maxEntries})
	for i := range maxEntries {
		r.check(softName, fmt.Sprintf("%s%04d", strings.Repeat("k", quota.MaxKeyLen-4), i), 1)
	}
	keys := 0
	for _, rep := range r.Collect(r.now) {
		size := 0
		for _, e := range rep.Entries {
			size += quota.EntrySize(e.Key.LimitName, e.Key.Key)
		}
		if keys += len(rep.Entries); size > maxReport {
			t.Errorf("a report of %d keys has up to %d bytes; at most %d", len(rep.Entries), size, maxReport)
		}
	}
	if keys != maxEntries {
		t.Errorf("%d of %d keys are reported", keys, maxEntries)
	}
}
