// Command quorate runs and drives a Quorate cluster. "quorate --help" lists the
// subcommands; each is in a file of its name, those of a group in one file each
// (limits_apply.go). docs/cli.md is their reference, and a test holds it to what
// --help prints.
//
// Results go to standard output, everything else to standard error. Every error
// becomes one exit code, in exit.go. Files are read as package config reads them,
// and what a node refuses is printed as it said it: no rule is checked twice.
// Scripts under testdata run the real command line against a fake cluster;
// systemtest/cli_test.go against a real one.
package main
