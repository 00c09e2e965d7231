// Package snapshotio has what all snapshots and log entries share: their encoding, and the bytes that
// name a snapshot's format.
package snapshotio
