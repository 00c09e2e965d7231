//go:build race

package aggregator

// raced reports that the race detector is built in, which turns an atomic operation into a call.
const raced = true
