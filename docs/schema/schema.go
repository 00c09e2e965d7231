// Package schema has the JSON schemas of Quorate's files: limits.json of the limit
// file, node.json of a node's settings, scenario.json of the simulator's scenarios,
// beside this file. They are for editors; a node serves them under /v1/schema. The
// parsers are stricter: a schema knows nothing of duplicate keys, nor of what two
// fields say of each other.
//
// What values may be is written from the parsers into node.json and limits.json:
//
//	go test ./config -run Schema -rewrite
//
// The words of node.json are those of docs/reference/settings.md; the words and the structure of
// limits.json are kept there by hand. scenario.json is kept by hand, and a test of
// internal/sim/scenario holds it to the parser.
package schema

import "embed"

//go:embed *.json
var files embed.FS

// Names are what the schemas are of, in the order of the alphabet. The file of each is
// its name and .json.
func Names() []string { return []string{"limits", "node", "scenario"} }

// Of returns the schema of that name. The caller owns it.
func Of(name string) []byte {
	data, err := files.ReadFile(name + ".json")
	if err != nil {
		panic(err) // invariant: names are constants, and the files are built in
	}
	return data
}
