package doctest

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// protoDir is what imports of protos are from; protos are those of the API.
const (
	protoDir = "api/proto"
	protos   = protoDir + "/quorate/v1/*.proto"
)

// Protos compiles the protos of the API, with their comments, in the order of their names but
// for quota.proto, which is what most callers look for.
func Protos(fsys fs.FS) ([]protoreflect.FileDescriptor, error) {
	names, err := fs.Glob(fsys, protos)
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		names[i] = strings.TrimPrefix(name, protoDir+"/")
	}
	slices.SortStableFunc(names, func(a, b string) int {
		return isQuota(b) - isQuota(a)
	})
	compiler := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
			Accessor: func(name string) (io.ReadCloser, error) { return fsys.Open(path.Join(protoDir, name)) },
		}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(context.Background(), names...)
	if err != nil {
		return nil, err
	}
	var out []protoreflect.FileDescriptor
	for _, f := range files {
		out = append(out, f)
	}
	return out, nil
}

func isQuota(name string) int {
	if path.Base(name) == "quota.proto" {
		return 1
	}
	return 0
}

// Comment is what a proto says of a descriptor, on one line; empty if it says nothing.
func Comment(d protoreflect.Descriptor) string {
	words := d.ParentFile().SourceLocations().ByDescriptor(d).LeadingComments
	return strings.Join(strings.Fields(words), " ")
}

// Call is what docs/reference/authorization.md says of a call.
type Call struct {
	HTTP       string // methods and paths, in backquotes
	Permission string
	Where      string
}

// callRow is a row of that page: call, HTTP, permission, where.
var callRow = regexp.MustCompile("(?m)^\\| `([A-Za-z.]+)` \\| ([^|]*) \\| ([^|]*) \\| ([^|]*) \\|")

// Calls reads that page; the key is service and method, with a dot in between.
func Calls(page string) map[string]Call {
	out := map[string]Call{}
	for _, m := range callRow.FindAllStringSubmatch(page, -1) {
		out[m[1]] = Call{strings.ReplaceAll(strings.TrimSpace(m[2]), "<br>", ", "), strings.TrimSpace(m[3]), strings.TrimSpace(m[4])}
	}
	return out
}

// GRPC writes the reference of the gRPC API: an index, grpc.md, and a page for each proto, grpc/NAME.md,
// with its services and their calls, its messages and its enums.
func GRPC(files []protoreflect.FileDescriptor, calls map[string]Call) map[string]string {
	pages := map[string]string{}
	var index strings.Builder
	index.WriteString("# gRPC\n\nThe package is `quorate.v1`; every node serves all of it. The same calls over HTTP: [HTTP](http.md). " +
		"The permission that each call needs: [authorization](authorization.md). Each page below is one file of `api/proto/quorate/v1`.\n\n| page | services | |\n|---|---|---|\n")
	for _, f := range files {
		name := family(f)
		services, words := []string{}, []string{}
		for s := range all(f.Services()) {
			services = append(services, fmt.Sprintf("[%s](grpc/%s.md#%s)", s.Name(), name, Slug(string(s.Name()))))
			words = append(words, cell(sentence(Comment(s))))
		}
		if len(services) == 0 {
			words = []string{"messages that the calls of other pages use"}
		}
		fmt.Fprintf(&index, "| [%s](grpc/%s.md) | %s | %s |\n", name, name, strings.Join(services, ", "), strings.Join(words, " "))
		pages["grpc/"+name+".md"] = protoPage(f, calls)
	}
	pages["grpc.md"] = index.String()
	return pages
}

// family returns the name of a proto without its directory and extension: the name of its page.
func family(f protoreflect.FileDescriptor) string {
	return strings.TrimSuffix(path.Base(f.Path()), ".proto")
}

// sentence returns the first sentence of a text.
func sentence(text string) string {
	first, _, more := strings.Cut(text, ". ")
	if more {
		first += "."
	}
	return first
}

// protoPage writes what one proto declares.
func protoPage(f protoreflect.FileDescriptor, calls map[string]Call) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# gRPC: %s\n\nDeclared in [%s](../../../%s/%s). All pages: [gRPC](../grpc.md).\n", family(f), path.Base(f.Path()), protoDir, f.Path())
	for s := range all(f.Services()) {
		service(&b, s, calls)
	}
	messages := map[string]protoreflect.MessageDescriptor{}
	enums := map[string]protoreflect.EnumDescriptor{}
	collect(f, messages, enums)
	if len(messages) > 0 {
		b.WriteString("\n## Messages\n")
	}
	for _, name := range slices.Sorted(maps.Keys(messages)) {
		message(&b, name, messages[name])
	}
	if len(enums) > 0 {
		b.WriteString("\n## Enums\n")
	}
	for _, name := range slices.Sorted(maps.Keys(enums)) {
		fmt.Fprintf(&b, "\n### %s\n\n%s\n\n| value | no. | |\n|---|---|---|\n", name, prose(Comment(enums[name])))
		for v := range all(enums[name].Values()) {
			fmt.Fprintf(&b, "| `%s` | %d | %s |\n", v.Name(), v.Number(), cell(Comment(v)))
		}
	}
	return b.String()
}

// holder declares messages and enums: a file, or a message.
type holder interface {
	Messages() protoreflect.MessageDescriptors
	Enums() protoreflect.EnumDescriptors
}

func collect(h holder, messages map[string]protoreflect.MessageDescriptor, enums map[string]protoreflect.EnumDescriptor) {
	for e := range all(h.Enums()) {
		enums[local(e)] = e
	}
	for m := range all(h.Messages()) {
		if !m.IsMapEntry() {
			messages[local(m)] = m
			collect(m, messages, enums)
		}
	}
}

func service(b *strings.Builder, s protoreflect.ServiceDescriptor, calls map[string]Call) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n", s.Name(), prose(Comment(s)))
	for m := range all(s.Methods()) {
		name := string(s.Name()) + "." + string(m.Name())
		fmt.Fprintf(b, "\n### %s\n\n%s%s → %s%s\n\n%s\n", name, stream(m.IsStreamingClient()), ref(s, m.Input()), stream(m.IsStreamingServer()), ref(s, m.Output()), prose(Comment(m)))
		c := calls[name]
		if c.HTTP != "" {
			fmt.Fprintf(b, "\nHTTP: %s\n", c.HTTP)
		}
		if c.Permission != "" {
			fmt.Fprintf(b, "\nPermission: %s\n", strings.TrimSuffix(c.Permission+", "+c.Where, ", "))
		}
	}
}

func stream(is bool) string {
	if is {
		return "stream of "
	}
	return ""
}

func message(b *strings.Builder, name string, m protoreflect.MessageDescriptor) {
	fmt.Fprintf(b, "\n### %s\n\n%s\n", name, prose(Comment(m)))
	if m.Fields().Len() == 0 {
		return
	}
	b.WriteString("\n| field | type | no. | |\n|---|---|---|---|\n")
	for f := range all(m.Fields()) {
		words := cell(Comment(f))
		if o := f.ContainingOneof(); o != nil && !o.IsSynthetic() {
			words += fmt.Sprintf(" (One of `%s`.)", o.Name())
		}
		fmt.Fprintf(b, "| `%s` | %s | %d | %s |\n", f.Name(), fieldType(f), f.Number(), words)
	}
}

func fieldType(f protoreflect.FieldDescriptor) string {
	switch {
	case f.IsMap():
		return "map of " + fieldType(f.MapKey()) + " to " + fieldType(f.MapValue())
	case f.IsList():
		return "list of " + singular(f)
	case f.HasOptionalKeyword():
		return singular(f) + ", optional"
	}
	return singular(f)
}

func singular(f protoreflect.FieldDescriptor) string {
	switch {
	case f.Message() != nil:
		return ref(f, f.Message())
	case f.Enum() != nil:
		return ref(f, f.Enum())
	}
	return f.Kind().String()
}

// ref links a type of the API from the page of another descriptor; types of other packages have their
// names alone.
func ref(from, d protoreflect.Descriptor) string {
	if d.ParentFile().Package() != "quorate.v1" {
		return "`" + string(d.FullName()) + "`"
	}
	page := ""
	if d.ParentFile().Path() != from.ParentFile().Path() {
		page = family(d.ParentFile()) + ".md"
	}
	return fmt.Sprintf("[%s](%s#%s)", local(d), page, Slug(local(d)))
}

// local is a type's name in its package.
func local(d protoreflect.Descriptor) string {
	return strings.TrimPrefix(string(d.FullName()), string(d.ParentFile().Package())+".")
}

// list is what descriptors are listed in.
type list[T any] interface {
	Len() int
	Get(i int) T
}

func all[T any](l list[T]) func(yield func(T) bool) {
	return func(yield func(T) bool) {
		for i := range l.Len() {
			if !yield(l.Get(i)) {
				return
			}
		}
	}
}

// plainly escapes what would mean something in Markdown.
var plainly = strings.NewReplacer("*", `\*`, "<", "&lt;", "[", `\[`)

// prose is text for Markdown; what it says of errors is a paragraph of its own.
func prose(text string) string {
	return strings.ReplaceAll(plainly.Replace(text), ". Errors", ".\n\nErrors")
}

// cell is text for a table.
func cell(text string) string {
	return strings.ReplaceAll(plainly.Replace(strings.Join(strings.Fields(text), " ")), "|", `\|`)
}
