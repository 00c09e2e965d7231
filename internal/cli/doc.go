// Package cli is the quorate command line: the root command, shell completion and the exit code.
// Each family of commands is a package below it; docs/reference/cli.md lists them all.
//
// A command is a function that returns a cobra.Command: it reads flags, calls a node through
// package remote, and prints the answer with render.Output, as data or as a page for people. A new
// flag is a line of that function, and a new command a line of New. docs/reference/cli has the output of
// --help: go test ./cmd/quorate -run TestDoc -rewrite writes it.
//
// Results go to standard output, everything else to standard error. Every error becomes one exit
// code (package exit). Commands read files through package config, and print a node's refusal in
// the node's words: they do not check any rule a second time.
package cli
