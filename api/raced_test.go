//go:build race

package api

// raced: the race detector is built in, under which an atomic operation is a call.
const raced = true
