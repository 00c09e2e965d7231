package api

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/quorate/quorate/api/apierr"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
)

// TestJSONHasTheProtosFields fills every answer's every field and compares the
// JSON's names with the descriptors', all the way down.
func TestJSONHasTheProtosFields(t *testing.T) {
	for _, m := range []proto.Message{
		&quoratev1.AllowResponse{}, &quoratev1.AllowBatchResponse{}, &quoratev1.GetLimitsResponse{},
		&quoratev1.ApplyLimitsResponse{}, &quoratev1.TopRatesResponse{}, &quoratev1.GetStatusResponse{},
		&quoratev1.AllowAllResponse{}, &quoratev1.ReserveResponse{}, &quoratev1.AcquireResponse{}, &quoratev1.ReportResponse{},
		&quoratev1.DiffLimitsResponse{}, &quoratev1.ValidateLimitsResponse{}, &quoratev1.ListVersionsResponse{},
		&quoratev1.ListOverridesResponse{}, &quoratev1.GetKeyResponse{}, &quoratev1.WatchResponse{},
		&quoratev1.ApplyOpsResponse{}, &quoratev1.GetAccountsResponse{}, &quoratev1.ListAccountsResponse{}, &quoratev1.GetAccountHistoryResponse{},
		&quoratev1.LoadPoliciesResponse{}, &quoratev1.GetPoliciesResponse{}, &quoratev1.ListPoliciesResponse{}, &quoratev1.PurgePoliciesResponse{},
		&quoratev1.JoinResponse{}, &quoratev1.CreateJoinTokenResponse{}, &quoratev1.ListJoinTokensResponse{}, &quoratev1.GetPlanResponse{}, &quoratev1.ChangeNodeResponse{},
		&quoratev1.TransferLeadershipResponse{}, &quoratev1.IssueCertificateResponse{}, &quoratev1.RotateAuthorityResponse{},
		&quoratev1.HistoryResponse{}, &quoratev1.HistoryKeysResponse{}, &quoratev1.HistoryLimitsResponse{}, &quoratev1.HeadroomResponse{}, &quoratev1.WhatIfResponse{},
		&quoratev1.SuggestResponse{}, &quoratev1.ForecastResponse{}, &quoratev1.NoisyResponse{}, &quoratev1.RateServiceReportResponse{}, &quoratev1.WatchRatesResponse{},
	} {
		fill(m.ProtoReflect())
		var got map[string]any
		if err := json.Unmarshal(FormatJSON(m), &got); err != nil {
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

// something is a value of a scalar field that is not its zero.
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

// TestDecoderKnowsTheProtosFields holds the hand-written decoder to the protos.
func TestDecoderKnowsTheProtosFields(t *testing.T) {
	var names []string
	fields := (&quoratev1.AllowRequest{}).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		names = append(names, string(fields.Get(i).Name()))
	}
	if got, want := strings.Join(checkFields, " "), strings.Join(names, " "); got != want {
		t.Errorf("the decoder knows %q, AllowRequest has %q", got, want)
	}
	if fields := (&quoratev1.AllowBatchRequest{}).ProtoReflect().Descriptor().Fields(); fields.Len() != 1 || fields.Get(0).Name() != "checks" {
		t.Error("AllowBatchRequest is no longer just checks")
	}
	if fields := (&quoratev1.AllowResult{}).ProtoReflect().Descriptor().Fields(); fields.Len() != 2 || fields.Get(0).Name() != "response" || fields.Get(1).Name() != "error" {
		t.Error("AllowResult is no longer response and error: postBatch writes these")
	}
}

// TestAppendAllowEqualsFormatJSON holds the hand-written encoder to the protos.
func TestAppendAllowEqualsFormatJSON(t *testing.T) {
	limits := mustLimits(t, 1, "web/per_client 10/s 20", "web/login 5/m 5 hard")
	if got, want := string(appendAllow(nil, noRule, &quota.Decision{Allowed: true, Why: quota.WhyNoLimit})), `{"allowed":true,"limit":null,"remaining":0,"retry_after":0,"why":"no_limit",`; !strings.HasPrefix(got, want) {
		t.Errorf("without a limit: %s", got)
	}
	for i := range limits.All() {
		l := &limits.All()[i]
		r := newRule(l, nil)
		for _, why := range quota.Whys() {
			for _, retry := range []time.Duration{0, 1, time.Microsecond, 1500 * time.Millisecond, 400 * 24 * time.Hour, never} {
				d := quota.Decision{
					Allowed: retry == 0, Why: why, Limit: l, Remaining: 3, RetryAfter: retry,
					Wait: retry / 2, ResetAfter: retry, Shadow: retry > 1, Near: retry < 1, Tier: int(why) % 3,
				}
				want := string(FormatJSON(r.response(&d)))
				if d.Allowed {
					want = strings.Replace(want, `"retry_after":null`, `"retry_after":0`, 1)
				}
				if got := string(appendAllow(nil, r, &d)); got != want {
					t.Fatalf("got  %s\nwant %s", got, want)
				}
				if why.String() != enumWord(quoratev1.Why(0).Descriptor(), protoreflect.EnumNumber(why)) {
					t.Errorf("why %v is %v in the proto", why, quoratev1.Why(why))
				}
			}
		}
	}
	if got := string(FormatJSON(durationpb.New(90 * time.Millisecond))); got != "0.09" {
		t.Errorf("90 ms is %s", got)
	}
	if got := string(FormatJSON(&quoratev1.KeyRate{Rate: math.Inf(1)})); !json.Valid([]byte(got)) {
		t.Errorf("infinity makes broken JSON: %s", got)
	}
}

// FuzzDecodeCheck: never panics, never accepts what encoding/json refuses, and
// reads the same values.
func FuzzDecodeCheck(f *testing.F) {
	for _, s := range []string{
		`{"namespace":"web","limit":"per_client","key":"203.0.113.7"}`, `{"namespace":"a\u0062","limit":"\"","key":"\ud83d\ude00","cost":12}`,
		`{"cost":null}`, `{"max_wait":1.5,"method":"GET","path":"/a"}`, `{"max_wait":null}`, `{"max_wait":1e300}`, `{"max_wait":-0}`, ` { } `, `{"key":"\`, `{"key":"\ud800"}`, `{"cost":-0}`, `{"cost":01}`, `{"cost":1`, `{"key":"a","key":"b"}`, "{\"key\":\"\x01\"}", `{,}`, `[]`, `{"\u006bey":"x"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var c check
		fault := decodeCheck(b, &c)
		if checks, _ := decodeBatch(append(append([]byte(`{"checks":[`), b...), "]}"...)); fault == nil && (len(checks) != 1 || checks[0].key != c.key) {
			t.Errorf("alone %v, in a batch %v", c, checks)
		}
		if fault != nil {
			if apierr.From(fault).Detail == "" || apierr.From(fault).Field == "" || !utf8.ValidString(fault.Error()) || len(fault.Error()) > 2000 {
				t.Errorf("bad fault %q of %q", fault.Error(), b)
			}
			return
		}
		var want struct {
			Namespace, Limit, Key, Method, Path string
			Cost                                *int64
			MaxWait                             *float64 `json:"max_wait"`
		}
		d := json.NewDecoder(bytes.NewReader(b))
		d.DisallowUnknownFields()
		if err := d.Decode(&want); err != nil {
			t.Fatalf("%q: accepted, but: %v", b, err)
		}
		if c.key.Namespace != want.Namespace || c.key.LimitName.Limit != want.Limit || c.key.Key != want.Key || c.costs != (want.Cost != nil) || c.costs && c.cost != *want.Cost {
			t.Errorf("%q: read %+v, encoding/json %+v", b, c, want)
		}
		if c.method != want.Method || c.path != want.Path || c.waits != (want.MaxWait != nil) || c.waits && time.Duration(math.Round(*want.MaxWait*1e9)) != c.wait {
			t.Errorf("%q: read %+v, encoding/json %+v", b, c, want)
		}
	})
}
