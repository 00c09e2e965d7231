// Command quorate runs and drives a Quorate cluster. Package internal/cli contains its commands.
//
// The tests here run whole command lines: scripts under testdata against a fake cluster, and
// docs/reference/cli against the output of --help. systemtest/cli_test.go runs commands against a real
// cluster.
package main
