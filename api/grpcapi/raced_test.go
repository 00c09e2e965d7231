//go:build race

package grpcapi

// raced reports that the race detector is on, under which an atomic operation is a call.
const raced = true
