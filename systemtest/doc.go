// Package systemtest runs the real binary: nodes as processes of their own,
// with data on disk and ports on loopback or in network namespaces, killed,
// restarted, cut off and driven under load. There is nothing in it but tests.
//
// The binary is built once. go test -short skips all of it.
package systemtest
