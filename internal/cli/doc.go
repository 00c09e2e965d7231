// Package cli is the quorate command line: the root command, shell completion and the exit code. Each
// family of commands is a package below it; docs/cli.md lists them all.
//
// A command is a function that returns a cobra.Command: it reads flags, calls a node through package
// remote, and prints the answer with render.Output, as data or as a page for people. A new flag is a line
// of that function, and a new command one of New. docs/cli.md is what --help prints: go test ./cmd/quorate
// -run TestDoc -rewrite writes it.
//
// Results go to standard output, everything else to standard error. Every error becomes one exit
// code (package exit). Commands read files through package config and print what a node refuses as
// the node says it: no rule is checked twice.
package cli
