// Package recorder keeps the history of decisions: how much was requested and admitted of each limit in
// every second. docs/rfcs/20261122_history.md describes the design; package internal/history holds the
// pure parts.
//
// Every node counts its decisions ([Recorder.Tick]) and uploads them, ten seconds at a time, to the
// leaders of the ranges that keep them (upload.go). A leader merges the uploads of all nodes into lines
// of the range's log. Every replica applies the lines ([Replica]), and stores minutes and hours on its
// disk (store.go). A replica that was away fetches what it lacks from others (backfill.go). Any replica
// answers queries (query.go, read.go, keys.go).
package recorder
