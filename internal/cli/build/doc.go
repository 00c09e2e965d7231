// Package build holds the version of the software, and the build information of a binary.
package build
