package config

import (
	"errors"
	"fmt"
	"strings"
)

// readList returns a function that reads a list of at most most items, and sets it unless it has a
// fault. read receives the items before its own. The list may be empty only if empty is true.
func readList[T any](to *[]T, most int, empty bool, example string, read func(v Value, before []T) T) func(Value) bool {
	return func(v Value) bool {
		faults := v.Faults()
		list := []T{}
		if !empty || !v.emptyList() {
			v.Items(most, "["+example+"]", func(item Value) { list = append(list, read(item, list)) })
		}
		if v.Faults() > faults {
			return false
		}
		*to = list
		return true
	}
}

// listAsYAML reads a list from a variable, as YAML, with the function that reads it from a file.
func listAsYAML(name, example string, read func(Value) bool) scalar {
	example = "[" + example + "]"
	return scalar{want: "a list, such as " + example, set: func(text string) error {
		r := &report{data: []byte(text)}
		r.documents(example, 1, func(v Value) {
			v.path = name
			read(v)
		})
		var all []string
		for _, f := range r.faults {
			all = append(all, strings.TrimPrefix(f.Path+": "+f.Message, ": "))
		}
		if len(all) > 0 {
			return fmt.Errorf("%s", strings.Join(all, "; "))
		}
		return nil
	}}
}

// errMust says that a list of listWithCommas as a whole has the wrong form; its read functions
// return it.
var errMust = errors.New("has another form")

// listWithCommas reads a comma-separated list of at most most items from a variable. what is the
// plural noun for the items in errors; read receives the items before its own.
func listWithCommas[T any](to *[]T, most int, want, what string, read func(i int, text string, before []T) (T, error)) scalar {
	return scalar{want: want, set: func(text string) error {
		items := strings.Split(text, ",")
		if len(items) > most {
			return fmt.Errorf("has %d %s; must be 1 to %d", len(items), what, most)
		}
		var out []T
		for i, item := range items {
			one, err := read(i, strings.TrimSpace(item), out)
			switch {
			case errors.Is(err, errMust):
				return Wrong(text, want)
			case err != nil:
				return err
			}
			out = append(out, one)
		}
		*to = out
		return nil
	}}
}
