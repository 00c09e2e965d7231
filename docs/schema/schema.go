// Package schema has the JSON schemas of Quorate's files: limits.json for limit files,
// node.json for the settings of a node, scenario.json for scenarios of the simulator.
// They are for editors; a node serves them under /v1/schema. The parsers are
// stricter: a schema cannot detect duplicate keys or conflicts between fields.
//
// A test writes the valid values, as the parsers accept them, into node.json and limits.json:
//
//	go test ./config -run Schema -rewrite
//
// The descriptions in node.json are those of docs/reference/settings.md. Descriptions and structure of
// limits.json, and all of scenario.json, are edited by hand; a test of internal/sim/scenario
// compares scenario.json with the parser.
package schema

import "embed"

//go:embed *.json
var files embed.FS

// Names returns the names of the schemas in alphabetical order. The file of each is
// its name and .json.
func Names() []string { return []string{"limits", "node", "scenario"} }

// Of returns the schema with that name, as a copy.
func Of(name string) []byte {
	data, err := files.ReadFile(name + ".json")
	if err != nil {
		panic(err) // invariant: names are constants, and the files are built in
	}
	return data
}
