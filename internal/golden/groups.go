package golden

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Groups returns lines of a Go comment that list the fields and the bytes of records: a line for the fields
// of each record itself, and one for each struct that is embedded in it and is not a record of the list.
func Groups(records ...reflect.Type) string {
	var lines strings.Builder
	row := func(name string, size uintptr, fields []string) {
		fmt.Fprintf(&lines, "//\t%-14s %4d  %s\n", name, size, strings.Join(fields, " "))
	}
	for _, of := range records {
		own, size := []string(nil), of.Size()
		var groups []reflect.Type
		for f := range of.Fields() {
			switch {
			case !f.Anonymous || f.Type.Kind() == reflect.Pointer:
				own = append(own, f.Name)
			default:
				size -= f.Type.Size()
				if !slices.Contains(records, f.Type) {
					groups = append(groups, f.Type)
				}
			}
		}
		if len(own) > 0 {
			row(of.Name(), size, own)
		}
		for _, g := range groups {
			var fields []string
			for f := range g.Fields() {
				fields = append(fields, f.Name)
			}
			row(g.Name(), g.Size(), fields)
		}
	}
	return lines.String()
}
