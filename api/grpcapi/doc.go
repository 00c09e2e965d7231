// Package grpcapi serves the API over gRPC: all services of quorate.v1, health and reflection. It
// also serves pages in the same process ([Local]).
//
// # Checks
//
// Allow, AllowBatch and AllowStream bypass the generated messages. codec.go decodes checks into the
// values that decide them (wirein.go): it copies each message into one string, of which all names
// and keys are substrings. It encodes answers from the decision and the limit's prepared bytes
// (wireout.go). The generated code decodes whatever that reader does not handle; fuzz tests check
// that both give the same result.
//
// Consecutive checks of a batch that name the same limit form a run (batch.go). Their limit is
// looked up once, and the node decides them together (api.HeldChecker) as far as it holds enough.
// It decides the others one by one.
//
// # Callers without a permission
//
// gRPC reads the message of a call before any code of its method runs. guard.go therefore checks
// the caller once the headers have arrived. A method that needs no permission is served as a stream
// of one small message (anonymous.go).
package grpcapi
