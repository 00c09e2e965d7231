//go:build race

package grpcapi

// raced: the race detector is built in, under which an atomic operation is a call.
const raced = true
