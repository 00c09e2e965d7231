package leader_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
)

// TestCheckpointBytes: keys with many members, or with long names, are spread over several
// checkpoints. None is too large for a log, and together they contain all keys.
func TestCheckpointBytes(t *testing.T) {
	const keys = 6000
	l := quota.Limit{
		LimitName: quota.LimitName{Namespace: "n", Limit: "l"}, Rate: quota.Rate{Tokens: 10, Per: time.Hour}, Burst: 1000, Ceiling: quota.Soft,
	}
	limits, err := quota.NewLimits(1, []quota.Limit{l})
	if err != nil {
		t.Fatal(err)
	}
	now := quota.Time(1_790_000_000_000_000_000)
	ledger := leader.New(leader.Config{MaxKeys: 2 * keys}, 0, 1, "a", []quota.NodeID{"a"}, limits, nil, now)
	r := quota.Report{Term: 1, From: "a", Incarnation: 1, Seq: 1}
	long := strings.Repeat("k", quota.MaxKeyLen-10)
	for i := range keys {
		r.Entries = append(r.Entries, quota.ReportEntry{Key: quota.Key{LimitName: l.LimitName, Key: fmt.Sprint(long, i)}, Epoch: 1, Overdrawn: 90 * quota.Token, Unreported: 90 * quota.Token})
	}
	if _, err := ledger.Report(now, r); err != nil {
		t.Fatal(err)
	}
	written, checkpoints := map[quota.Key]bool{}, 0
	for more := true; more; more = ledger.More() {
		lines, size := ledger.Checkpoint(now, keys), 0
		for i := range lines {
			written[lines[i].Key] = true
			size += lines[i].MaxSize()
		}
		if checkpoints++; size > leader.MaxCheckpoint || len(lines) == 0 {
			t.Fatalf("checkpoint %d has %d lines, %d bytes; at most %d", checkpoints, len(lines), size, leader.MaxCheckpoint)
		}
	}
	if len(written) != keys || checkpoints != 2 {
		t.Errorf("%d keys in %d checkpoints; want %d in 2", len(written), checkpoints, keys)
	}
	if lines := ledger.Checkpoint(now, keys); len(lines) > 0 {
		t.Errorf("%d lines are written again", len(lines))
	}
}
