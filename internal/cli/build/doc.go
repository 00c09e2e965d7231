// Package build has the version of the software, and what a binary says it was built from.
package build
