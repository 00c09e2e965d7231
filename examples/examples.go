// Package examples holds what the examples folder has for the binary itself.
package examples

import "embed"

// Limits is limits.yaml, which quorate dev loads by default.
//
//go:embed limits.yaml
var Limits []byte

// Scenarios are the files of the simulator, sim/*.yaml, which "quorate sim
// example:NAME" plays.
//
//go:embed sim/*.yaml
var Scenarios embed.FS
