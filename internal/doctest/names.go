package doctest

import (
	"encoding/json"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// Name is what users write or read: a command or flag, a setting, a field of a limit file or of
// the API, a metric or its label.
type Name struct {
	What string
	Name string
}

var (
	cliName    = regexp.MustCompile(`(?m)^### quorate ([a-z -]+)$|^ +(?:-[a-z], )?--([a-z-]+)\b`)
	metricName = regexp.MustCompile("(?m)^\\| `(quorate_[a-z0-9_]+)` \\| [^|]*\\| ([^|]*)\\|")
)

// Names collects them from the pages, schemas and protos, which tests hold to the program.
func Names(fsys fs.FS, files []protoreflect.FileDescriptor) ([]Name, error) {
	seen := map[Name]bool{}
	read := func(name string) string {
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			panic(err) // invariant: the callers are tests, and the files are in the repository
		}
		return string(text)
	}
	for _, m := range cliName.FindAllStringSubmatch(read("docs/cli.md"), -1) {
		seen[Name{"command or flag", m[1] + m[2]}] = true
	}
	for _, m := range metricName.FindAllStringSubmatch(read("docs/metrics.md"), -1) {
		seen[Name{"metric", m[1]}] = true
		for label := range strings.FieldsFuncSeq(m[2], func(r rune) bool { return !unicode.IsLower(r) && r != '_' }) {
			seen[Name{"label", label}] = true
		}
	}
	for file, what := range map[string]string{"docs/schema/limits.json": "limit file", "docs/schema/node.json": "setting", "docs/openapi.json": "HTTP"} {
		var tree any
		if err := json.Unmarshal([]byte(read(file)), &tree); err != nil {
			return nil, err
		}
		for _, p := range properties(tree) {
			seen[Name{what, p}] = true
		}
	}
	messages := map[string]protoreflect.MessageDescriptor{}
	enums := map[string]protoreflect.EnumDescriptor{}
	for _, f := range files {
		collect(f, messages, enums)
		for s := range all(f.Services()) {
			for m := range all(s.Methods()) {
				seen[Name{"call", string(m.Name())}] = true
			}
		}
	}
	for name, m := range messages {
		seen[Name{"message", name}] = true
		for f := range all(m.Fields()) {
			seen[Name{"field", string(f.Name())}] = true
		}
	}
	for _, e := range enums {
		for v := range all(e.Values()) {
			seen[Name{"value", string(v.Name())}] = true
		}
	}
	return slices.SortedFunc(maps.Keys(seen), func(a, b Name) int { return strings.Compare(a.What+" "+a.Name, b.What+" "+b.Name) }), nil
}

// properties are the names of the properties in a JSON schema, at any depth.
func properties(tree any) (out []string) {
	switch tree := tree.(type) {
	case map[string]any:
		for key, value := range tree {
			if fields, ok := value.(map[string]any); ok && key == "properties" {
				out = slices.AppendSeq(out, maps.Keys(fields))
			}
			out = append(out, properties(value)...)
		}
	case []any:
		for _, value := range tree {
			out = append(out, properties(value)...)
		}
	}
	return out
}

// Parts are the words of a name in one text, with a space around each: "max_keys" and "MaxKeys"
// are " max keys ".
func Parts(name string) string {
	var b strings.Builder
	lower := false
	for _, r := range name {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			b.WriteByte(' ')
		case unicode.IsUpper(r) && lower:
			b.WriteByte(' ')
			fallthrough
		default:
			b.WriteRune(unicode.ToLower(r))
		}
		lower = unicode.IsLower(r)
	}
	return " " + strings.Join(strings.Fields(b.String()), " ") + " "
}
