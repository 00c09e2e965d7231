package shard

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/quorate/quorate/internal/quota"
)

func key(ns, limit, k string) quota.Key {
	return quota.Key{LimitName: quota.LimitName{Namespace: ns, Limit: limit}, Key: k}
}

// TestHashGolden pins the hash: a change would move every key of every
// existing cluster to another range.
func TestHashGolden(t *testing.T) {
	golden := map[quota.Key]uint64{
		key("", "", ""):                              0x6bc537b46c7f7baf,
		key("web", "per_client", "203.0.113.7"):      0x9467eb226a8873e,
		key("web", "per_client", "203.0.113.8"):      0x34b707cbe16bb3b9,
		key("api", "per_tenant", "acme"):             0x63de05b9b1a91b3c,
		key("api", "per_tenan", "tacme"):             0x9c08203644f09b01,
		key("n", "l", "\x00\xff a key of any bytes"): 0x59d7b5372657ec37,
	}
	for k, want := range golden {
		if got := Hash(k); got != want {
			t.Errorf("Hash(%q) = %#x, want %#x: the hash may never change", k, got, want)
		}
	}
}

// TestSpread shows that keys which differ only at the end spread evenly.
func TestSpread(t *testing.T) {
	for _, form := range []string{"user-%d", "account:%08d", "10.0.0.%d"} {
		counts := make([]int, 64)
		for i := range 64_000 {
			counts[Of(key("web", "per_client", fmt.Sprintf(form, i)), 64)]++
		}
		if lo, hi := slices.Min(counts), slices.Max(counts); lo < 850 || hi > 1150 {
			t.Errorf("%s: ranges hold %d to %d of 64000 keys, want about 1000 each", form, lo, hi)
		}
	}
}

func TestOfCoversAllRanges(t *testing.T) {
	for _, ranges := range []int{1, 3, 16, 64, 256} {
		seen := map[quota.RangeID]bool{}
		for i := range 20 * ranges {
			r := Of(key("a", "b", strconv.Itoa(i)), ranges)
			if int(r) >= ranges {
				t.Fatalf("range %d of %d", r, ranges)
			}
			seen[r] = true
		}
		if len(seen) != ranges {
			t.Errorf("%d of %d ranges hit", len(seen), ranges)
		}
	}
}

func TestPlan(t *testing.T) {
	for _, tc := range []struct{ nodes, ranges, replicas, want int }{
		{1, 16, 3, 1}, {2, 16, 3, 1}, {3, 16, 3, 3}, {4, 64, 3, 3}, {5, 64, 5, 5}, {9, 64, 3, 3}, {12, 256, 3, 3},
	} {
		var nodes []quota.NodeID
		for i := range tc.nodes {
			nodes = append(nodes, quota.NodeID(fmt.Sprintf("n%02d", i)))
		}
		plan, err := Plan(nodes, tc.ranges, tc.replicas)
		if err != nil {
			t.Fatal(err)
		}
		checkPlan(t, nodes, plan, tc.want)
	}
}

func checkPlan(t *testing.T, nodes []quota.NodeID, plan [][]quota.NodeID, replicas int) {
	t.Helper()
	leads, second := map[quota.NodeID]int{}, map[[2]quota.NodeID]int{}
	for r, voters := range plan {
		if len(voters) != replicas {
			t.Fatalf("%d nodes: range %d has %d voters, want %d", len(nodes), r, len(voters), replicas)
		}
		if s := slices.Compact(slices.Sorted(slices.Values(voters))); len(s) != len(voters) {
			t.Fatalf("range %d has a voter twice: %v", r, voters)
		}
		leads[voters[0]]++
		if replicas > 1 {
			second[[2]quota.NodeID{voters[0], voters[1]}]++
		}
	}
	lo, hi := len(plan), 0
	for _, n := range nodes {
		lo, hi = min(lo, leads[n]), max(hi, leads[n])
	}
	if hi-lo > 1 {
		t.Errorf("%d nodes lead %d to %d ranges, want a difference of at most 1", len(nodes), lo, hi)
	}
	if n := len(nodes); replicas > 1 && len(plan) >= n*(n-1) && len(second) != n*(n-1) {
		t.Errorf("%d nodes: %d of %d pairs of first and second replica used: a dead leader's load would not spread", n, len(second), n*(n-1))
	}
}

func TestPlanRefuses(t *testing.T) {
	for _, tc := range []struct {
		nodes            []quota.NodeID
		ranges, replicas int
	}{{nil, 16, 3}, {[]quota.NodeID{"a", "a"}, 16, 3}, {[]quota.NodeID{"a"}, 0, 1}, {[]quota.NodeID{"a"}, 257, 1}, {[]quota.NodeID{"a"}, 4, 2}} {
		if _, err := Plan(tc.nodes, tc.ranges, tc.replicas); err == nil {
			t.Errorf("Plan(%v, %d, %d) = nil error", tc.nodes, tc.ranges, tc.replicas)
		}
	}
}
