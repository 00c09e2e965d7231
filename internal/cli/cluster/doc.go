// Package cluster has the commands for operators: status, membership, join tokens and backups.
package cluster
