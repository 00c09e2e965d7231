package api

import "embed"

// Protos are the contract itself, for its comments: generated code has none.
//
//go:embed proto/quorate/v1/*.proto
var Protos embed.FS
