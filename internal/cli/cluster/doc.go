// Package cluster implements the commands for operators: status, membership, join tokens and
// backups.
package cluster
