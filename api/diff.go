package api

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/quorate/quorate/api/apijson"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/quota"
)

// diffLimits compares two sorted lists of limits.
func diffLimits(from, to []quota.Limit) []*quoratev1.LimitChange {
	var out []*quoratev1.LimitChange
	for len(from) > 0 || len(to) > 0 {
		switch c := compareFirst(from, to); {
		case c < 0:
			out = append(out, changeOf(quoratev1.ChangeKind_CHANGE_KIND_REMOVED, &from[0], &quota.Limit{LimitName: from[0].LimitName}))
			from = from[1:]
		case c > 0:
			out = append(out, changeOf(quoratev1.ChangeKind_CHANGE_KIND_ADDED, &quota.Limit{LimitName: to[0].LimitName}, &to[0]))
			to = to[1:]
		default:
			if !alike(&from[0], &to[0]) {
				out = append(out, changeOf(quoratev1.ChangeKind_CHANGE_KIND_CHANGED, &from[0], &to[0]))
			}
			from, to = from[1:], to[1:]
		}
	}
	return out
}

// alike reports whether two limits decide alike. Two spellings of one bucket rate, such as 10/h and
// 240/d, are alike. For windows they differ: the period is the window.
func alike(from, to *quota.Limit) bool {
	as := *from
	as.More = slices.Clone(as.More)
	writtenAs(&as.Rate, to.Rate, as.Kind == quota.TokenBucket)
	for i := range min(len(as.More), len(to.More)) {
		writtenAs(&as.More[i].Rate, to.More[i].Rate, as.More[i].Kind == quota.TokenBucket)
	}
	writtenAs(&as.Floor, to.Floor, true)
	writtenAs(&as.CutOff.Rate, to.CutOff.Rate, true)
	writtenAs(&as.CutOff.ThenRate, to.CutOff.ThenRate, true)
	return as.Equal(to)
}

// writtenAs replaces a bucket's rate with to, another spelling of it, if the two rates are equal.
func writtenAs(r *quota.Rate, to quota.Rate, bucket bool) {
	if bucket && r.Same(to) {
		*r = to
	}
}

// compareFirst compares the first names of two lists; an empty list sorts last.
func compareFirst(a, b []quota.Limit) int {
	switch {
	case len(a) == 0:
		return 1
	case len(b) == 0:
		return -1
	}
	return cmp.Or(cmp.Compare(a[0].Namespace, b[0].Namespace), cmp.Compare(a[0].LimitName.Limit, b[0].LimitName.Limit))
}

// changeOf lists the fields that differ. It compares an added or removed limit with an empty limit,
// and shows every field of that as empty.
func changeOf(kind quoratev1.ChangeKind, from, to *quota.Limit) *quoratev1.LimitChange {
	out := &quoratev1.LimitChange{Namespace: from.Namespace, Limit: from.LimitName.Limit, Kind: kind}
	a, b := apiproto.Limit(from).ProtoReflect(), apiproto.Limit(to).ProtoReflect()
	fields := a.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		before, after := fieldText(a, fd), fieldText(b, fd)
		always := kind != quoratev1.ChangeKind_CHANGE_KIND_CHANGED && (fd.Name() == "rate" || fd.Name() == "burst")
		if before == after && !always || fd.Name() == "namespace" || fd.Name() == "name" {
			continue
		}
		switch kind {
		case quoratev1.ChangeKind_CHANGE_KIND_ADDED:
			before = ""
		case quoratev1.ChangeKind_CHANGE_KIND_REMOVED:
			after = ""
		}
		out.Fields = append(out.Fields, &quoratev1.FieldChange{Field: string(fd.Name()), Before: before, After: after})
	}
	return out
}

// fieldText returns a field's value as JSON, strings and enums without quotes, or "" if the field
// is not set.
func fieldText(m protoreflect.Message, fd protoreflect.FieldDescriptor) string {
	if !m.Has(fd) && (fd.HasPresence() || fd.IsList() || fd.Kind() == protoreflect.EnumKind) {
		return ""
	}
	if fd.Kind() == protoreflect.EnumKind && !fd.IsList() {
		return apijson.Word(fd.Enum(), m.Get(fd).Enum())
	}
	if fd.Kind() == protoreflect.StringKind && !fd.IsList() {
		return m.Get(fd).String()
	}
	return string(apijson.AppendField(nil, m, fd))
}
