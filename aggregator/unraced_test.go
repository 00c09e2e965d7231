//go:build !race

package aggregator

const raced = false
