// Package remote connects commands to the nodes of a cluster, and turns the nodes' answers into
// errors that say what to do.
package remote
