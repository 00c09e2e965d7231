// Package front holds the code that the protocols of others share on a node: counting their
// requests, and finding the limits of Envoy's descriptors.
//
// Each protocol is a package beside this one. It converts its requests to quota.Requests, asks the
// node through its own small interface, and converts the quota.Decisions to its answers. So all
// protocols share the same local decision and the same metrics (seen).
package front
