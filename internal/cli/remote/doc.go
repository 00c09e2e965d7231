// Package remote connects commands to the nodes of a cluster, and turns what nodes answer into errors
// that say what to do.
package remote
