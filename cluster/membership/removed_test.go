package membership

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
)

// TestRemovedNeedsToken checks that a removed node can come back only with a token, and is then a member
// like others, and that the number of remembered removals is bounded.
func TestRemovedNeedsToken(t *testing.T) {
	table := after(t, three(t), add(joins("n4"), ""), dropMember("n4"))
	_, err := try(t, table, add(joins("n4"), ""), now)
	if refused := (*Error)(nil); !errors.As(err, &refused) || refused.Kind != Denied || !strings.Contains(err.Error(), `node "n4": was removed from the cluster`) {
		t.Fatalf("without a token: %v", err)
	}
	table = after(t, table, add(joins("n4"), "two"))
	if len(table.Proto().Removed) != 0 {
		t.Errorf("%v", table.Proto().Removed)
	}
	table = after(t, table, dropMember("n4"), add(joins("n5"), ""))
	full := table.Proto()
	for i := len(full.Removed); i < MaxRemoved; i++ {
		full.Removed = append(full.Removed, &raftlogv1.RemovedMember{Id: fmt.Sprintf("x%d", i), AtUnixNanos: now + int64(i)})
	}
	table = after(t, New(full), dropMember("n5"))
	if got := table.Proto().Removed; len(got) != MaxRemoved || table.NeedsToken("n5") == nil || table.NeedsToken("n4") != nil {
		t.Errorf("%d are remembered; n5: %v, n4, the oldest: %v", len(got), table.NeedsToken("n5"), table.NeedsToken("n4"))
	}
}
