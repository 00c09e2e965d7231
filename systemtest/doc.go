// Package systemtest tests the real binary: nodes run as separate processes, with data on disk and
// ports on loopback or in network namespaces, and are killed, restarted, cut off and put under
// load. The package contains only tests.
//
// The binary is built once. go test -short skips the whole package.
package systemtest
