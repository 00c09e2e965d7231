// Command quorate runs and drives a Quorate cluster. Package internal/cli has its commands.
//
// The tests here run whole command lines: scripts under testdata against a fake cluster, and docs/cli.md
// against what --help prints. systemtest/cli_test.go runs them against a real cluster.
package main
