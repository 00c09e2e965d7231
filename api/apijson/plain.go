package apijson

import (
	"regexp"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// quotedOrEnum matches a quoted text, also one that is cut off, or what may be the name of an enum value.
var quotedOrEnum = regexp.MustCompile(`"(?:[^"\\]|\\.)*"?|\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b`)

// PlainEnums replaces the names of enum values in a summary of the audit log by their words in JSON:
// "drain" instead of NODE_CHANGE_DRAIN. Quoted texts do not change.
func PlainEnums(summary string) string {
	pkg := quoratev1.File_quorate_v1_quota_proto.Package()
	return quotedOrEnum.ReplaceAllStringFunc(summary, func(name string) string {
		d, _ := protoregistry.GlobalFiles.FindDescriptorByName(pkg.Append(protoreflect.Name(name)))
		if value, ok := d.(protoreflect.EnumValueDescriptor); ok {
			return Word(value.Parent().(protoreflect.EnumDescriptor), value.Number())
		}
		return name
	})
}
