// Package monitor is what watches a cluster from outside: the catalogue of all metrics of a
// node, and the dashboard, the recording rules and the alerts that are made of them.
//
// Catalogue is the contract: docs/metrics.md and what is in deploy are generated from this
// package, and a test holds a real node's /metrics to it: name, type, labels, and how many
// series there may be. Who adds a metric adds a line.
package monitor
