// Package recorder keeps the history of what nodes decided: how much was asked of each limit, and
// admitted, in every second. docs/rfcs/20261122_history.md has the design, package internal/history
// the pure parts.
//
// Every node counts what it decides ([Recorder.Tick]) and uploads it, ten seconds at a time, to the
// leaders of the ranges that keep it (upload.go). A leader merges what all nodes uploaded into lines of
// the range's log; every replica applies them ([Replica]) and stores minutes and hours on its disk
// (store.go). A replica that was away fetches what it lacks from others (backfill.go). Queries are
// answered by any replica (query.go, read.go, keys.go).
package recorder
