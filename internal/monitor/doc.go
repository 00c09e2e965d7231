// Package monitor reads docs/reference/metrics.md, the catalogue of a node's metrics, for the tests that
// hold other things to it.
//
// Its own tests hold the alerts, the recording rules and the dashboard in deploy to the
// catalogue and to promtool, docs/reference/alerts.md to the alerts, and docs/reference/logs.md to the sources.
// A test of cmd/quorate holds the catalogue to what a real node shows. A new metric needs its line in
// docs/reference/metrics.md.
package monitor
