package api

import "embed"

// protoFiles are the contract itself, for its comments: generated code has none.
//
//go:embed proto/quorate/v1/*.proto
var protoFiles embed.FS
