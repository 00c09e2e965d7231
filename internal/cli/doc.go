// Package cli is the quorate command line: the root command, shell completion and the exit code. Each
// family of commands is a package below it; docs/cli.md lists them all.
//
// Results go to standard output, everything else to standard error. Every error becomes one exit
// code (package exit). Commands read files through package config and print what a node refuses as
// the node says it: no rule is checked twice.
package cli
