// Package snapshotio holds what all snapshots and log entries share: their encoding, and the magic
// bytes that identify a snapshot's format.
package snapshotio
