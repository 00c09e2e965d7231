// Package examples holds what the examples folder has for the binary itself.
package examples

import _ "embed"

// Limits is limits.yaml, which quorate dev loads by default.
//
//go:embed limits.yaml
var Limits []byte
