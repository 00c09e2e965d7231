// Package server measures decisions over the network: gRPC one by one, in batches and streamed,
// HTTP and the Redis protocol, each beside a server that only answers.
//
// Servers are separate processes. Their CPU time per operation is the steadier figure; the rate
// also depends on the client, which shares the processors. So clients are cheap, and the same for
// all: they send requests encoded in advance, and read only the first bytes of answers.
//
// The empty gRPC server has a codec of raw bytes. It decodes nothing, answers with as many bytes as
// Quorate, and has as many goroutines that wait for calls; the empty HTTP handler does nothing at
// all. So the ratios include everything that Quorate does for a check.
package server
