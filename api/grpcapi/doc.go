// Package grpcapi serves the API over gRPC: all services of quorate.v1, health and reflection; and to
// pages in the same process ([Local]).
//
// # Checks
//
// Allow, AllowBatch and AllowStream go round the messages of the generated code:
// codec.go reads checks into what decides them (wirein.go), each message into one
// string of which all names and keys are parts, and writes answers from the
// decision and the limit's bytes (wireout.go). What that reader does not know it
// leaves to the generated code; fuzz tests hold both to the same meaning.
//
// Of a batch, checks that follow each other and name the same limit are a run
// (batch.go): their limit is looked up once, and the node decides them together
// (api.HeldChecker) as far as it holds enough; the others it decides one by one.
//
// # Callers without a permission
//
// gRPC reads the message of a call before any code of its method runs. guard.go looks at the caller when
// the headers have come; what needs no permission is served as a stream of one small message (strangers.go).
package grpcapi
