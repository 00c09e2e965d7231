package config

import _ "embed" // for the schemas

//go:embed schema/limits.schema.json
var limitsSchema []byte

// LimitsSchema returns the JSON schema of the limit file, for editors. The
// parser is stricter: a schema knows nothing of duplicate keys or anchors.
func LimitsSchema() []byte { return append([]byte(nil), limitsSchema...) }

//go:embed schema/scenario.schema.json
var scenarioSchema []byte

// ScenarioSchema returns the JSON schema of the simulator's scenario file. It
// refers to that of the limit file, beside it, for limits.
func ScenarioSchema() []byte { return append([]byte(nil), scenarioSchema...) }
