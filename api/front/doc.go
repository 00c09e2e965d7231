// Package front is what the protocols of others have in common on a node: how their
// requests are counted, and how Envoy's find their limits.
//
// Each protocol is a package beside this one. It turns its requests into
// quota.Requests, asks the node through the small interface that it declares, and
// turns the quota.Decisions into its answers; so all of them go through the same
// local decision, and the same metrics (seen).
package front
