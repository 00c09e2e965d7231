package apijson

import (
	"encoding/json"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// TestJSONHasTheProtosFields sets every field of every answer and compares the names in JSON with
// the descriptors, recursively.
func TestJSONHasTheProtosFields(t *testing.T) {
	for _, m := range []proto.Message{
		&quoratev1.AllowResponse{}, &quoratev1.AllowBatchResponse{}, &quoratev1.GetLimitsResponse{},
		&quoratev1.ApplyLimitsResponse{}, &quoratev1.TopRatesResponse{}, &quoratev1.GetStatusResponse{},
		&quoratev1.AllowAllResponse{}, &quoratev1.ReserveResponse{}, &quoratev1.AcquireResponse{}, &quoratev1.ReportResponse{},
		&quoratev1.DiffLimitsResponse{}, &quoratev1.ValidateLimitsResponse{}, &quoratev1.ListVersionsResponse{},
		&quoratev1.ListOverridesResponse{}, &quoratev1.GetKeyResponse{}, &quoratev1.WatchResponse{},
		&quoratev1.ApplyOpsResponse{}, &quoratev1.GetAccountsResponse{}, &quoratev1.ListAccountsResponse{}, &quoratev1.ListRealmsResponse{}, &quoratev1.GetAccountHistoryResponse{},
		&quoratev1.LoadPoliciesResponse{}, &quoratev1.GetPoliciesResponse{}, &quoratev1.ListPoliciesResponse{}, &quoratev1.PurgePoliciesResponse{},
		&quoratev1.JoinResponse{}, &quoratev1.CreateJoinTokenResponse{}, &quoratev1.ListJoinTokensResponse{}, &quoratev1.GetPlanResponse{}, &quoratev1.ChangeNodeResponse{},
		&quoratev1.TransferLeadershipResponse{}, &quoratev1.IssueCertificateResponse{}, &quoratev1.RotateAuthorityResponse{},
		&quoratev1.HistoryResponse{}, &quoratev1.HistoryKeysResponse{}, &quoratev1.HistoryLimitsResponse{}, &quoratev1.HeadroomResponse{}, &quoratev1.WhatIfResponse{},
		&quoratev1.SuggestResponse{}, &quoratev1.ForecastResponse{}, &quoratev1.NoisyResponse{}, &quoratev1.RateServiceReportResponse{}, &quoratev1.WatchRatesResponse{},
	} {
		fill(m.ProtoReflect())
		var got map[string]any
		if err := json.Unmarshal(Format(m), &got); err != nil {
			t.Fatalf("%T: %v", m, err)
		}
		sameFields(t, string(m.ProtoReflect().Descriptor().Name()), got, m.ProtoReflect().Descriptor())
	}
}

func fill(m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		switch {
		case fd.IsMap():
			m.Mutable(fd).Map().Set(protoreflect.ValueOfString("x").MapKey(), protoreflect.ValueOfString("y"))
		case fd.IsList() && fd.Kind() == protoreflect.MessageKind:
			fill(m.Mutable(fd).List().AppendMutable().Message())
		case fd.IsList():
			m.Mutable(fd).List().Append(protoreflect.ValueOfString("x"))
		case fd.Kind() == protoreflect.MessageKind && fd.Message().ParentFile().Package() == "google.protobuf":
			m.Mutable(fd)
		case fd.Kind() == protoreflect.MessageKind:
			fill(m.Mutable(fd).Message())
		case sparse(fd):
			m.Set(fd, something(fd))
		}
	}
}

// something returns a non-zero value of a scalar field.
func something(fd protoreflect.FieldDescriptor) protoreflect.Value {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString("x")
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(1)
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(0.5)
	}
	return protoreflect.ValueOfInt64(1)
}

func sameFields(t *testing.T, path string, got map[string]any, d protoreflect.MessageDescriptor) {
	t.Helper()
	fields := d.Fields()
	if len(got) != fields.Len() {
		t.Errorf("%s: JSON has %d fields, the proto %d", path, len(got), fields.Len())
	}
	for i := range fields.Len() {
		fd := fields.Get(i)
		v, ok := got[string(fd.Name())]
		if !ok {
			t.Errorf("%s: JSON has no %s", path, fd.Name())
			continue
		}
		if list, ok := v.([]any); ok && len(list) > 0 {
			v = list[0]
		}
		if inner, ok := v.(map[string]any); ok && fd.Message() != nil && !fd.IsMap() {
			sameFields(t, path+"."+string(fd.Name()), inner, fd.Message())
		}
	}
}
