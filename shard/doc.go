// Package shard says which range a key belongs to and which nodes hold a range.
//
// It is pure. The 64-bit hash space is cut into equal contiguous ranges, a
// number fixed when the cluster is made; each range is one Raft group. Hash
// and Plan may never change for an existing cluster: a golden test pins both.
package shard
