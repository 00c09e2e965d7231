// Package server measures decisions over the network: gRPC one by one, in batches and
// streamed, HTTP and the Redis protocol, each beside a server that only answers.
package server
