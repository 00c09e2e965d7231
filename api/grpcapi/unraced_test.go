//go:build !race

package grpcapi

const raced = false
