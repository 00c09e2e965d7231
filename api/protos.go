package api

import "embed"

// Protos are the proto files of the contract. Their comments are needed at run time, and generated
// code has none.
//
//go:embed proto/quorate/v1/*.proto
var Protos embed.FS
