package shard

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/quorate/quorate/internal/quota"
)

// MaxRanges bounds the number of ranges of a cluster.
const MaxRanges = 256

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// Hash maps a key to the 64-bit hash space: FNV-1a over namespace, limit and key, each followed by
// a zero byte, then the finalizer of MurmurHash3, because FNV alone hardly mixes a key's last bytes
// into the high bits that select the range.
func Hash(k quota.Key) uint64 {
	h := uint64(fnvOffset)
	for _, s := range [...]string{k.Namespace, k.Limit, k.Key} {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * fnvPrime
		}
		h *= fnvPrime // the zero byte
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// Of returns the range of a key in a cluster with the given number of ranges.
func Of(k quota.Key, ranges int) quota.RangeID {
	hi, _ := bits.Mul64(Hash(k), uint64(ranges))
	return quota.RangeID(hi)
}

// Plan returns the nodes of each range for a new cluster, preferred leader first. Leaders are
// spread evenly, and so is the load of a dead leader: the ranges that one node leads have different
// second replicas.
func Plan(nodes []quota.NodeID, ranges, replicas int) ([][]quota.NodeID, error) {
	nodes = slices.Clone(nodes)
	slices.Sort(nodes)
	if len(slices.Compact(slices.Clone(nodes))) != len(nodes) {
		return nil, fmt.Errorf("nodes: %q has a duplicate", nodes)
	}
	if len(nodes) == 0 || ranges < 1 || ranges > MaxRanges {
		return nil, fmt.Errorf("plan: %d nodes and %d ranges; need a node and 1 to %d ranges", len(nodes), ranges, MaxRanges)
	}
	if replicas < 1 || replicas%2 == 0 {
		return nil, fmt.Errorf("replicas: %d; must be odd", replicas)
	}
	plan := make([][]quota.NodeID, ranges)
	for r := range plan {
		plan[r] = replicasOf(nodes, r, min(replicas, oddBelow(len(nodes))))
	}
	return plan, nil
}

// oddBelow returns the largest odd number up to n.
func oddBelow(n int) int { return n - 1 + n%2 }

func replicasOf(nodes []quota.NodeID, r, replicas int) []quota.NodeID {
	n := len(nodes)
	first := r % n
	out := []quota.NodeID{nodes[first]}
	for i := range replicas - 1 {
		// Walk the other n-1 nodes from a start that shifts with each round.
		step := 1 + (r/n+i)%(n-1)
		out = append(out, nodes[(first+step)%n])
	}
	return out
}
