// Package examples embeds the files of the examples folder that the binary needs.
package examples

import "embed"

// Limits is limits.yaml, which quorate dev loads by default.
//
//go:embed limits.yaml
var Limits []byte

// Scenarios holds the files of the simulator, sim/*.yaml, which "quorate sim example:NAME" plays.
//
//go:embed sim/*.yaml
var Scenarios embed.FS
