package config

import _ "embed" // for the schema

//go:embed schema/limits.schema.json
var limitsSchema []byte

// LimitsSchema returns the JSON schema of the limit file, for editors. The
// parser is stricter: a schema knows nothing of duplicate keys or anchors.
func LimitsSchema() []byte { return append([]byte(nil), limitsSchema...) }
