// Package server measures decisions over the network: gRPC one by one, in batches and
// streamed, HTTP and the Redis protocol, each beside a server that only answers.
//
// Servers are processes of their own. The steadier figure is their CPU for each
// operation; the rate depends on the client too, which has the same processors. So
// clients cost next to nothing, and the same for all: they send what was encoded
// before, and look at the first bytes of what comes back.
//
// The empty gRPC server has a codec of raw bytes. It decodes nothing, and answers
// with as many bytes as Quorate does, and has as many goroutines that wait for calls; the
// empty HTTP handler does nothing at all. So the ratios count everything that Quorate
// does for a check.
package server
