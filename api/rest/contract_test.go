package rest

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/api/apijson"
	"github.com/quorate/quorate/api/apitest"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/quota"
)

// TestDecoderKnowsTheProtosFields compares the hand-written decoder with the protos.
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

// TestAppendAllowEqualsFormatJSON compares the hand-written encoder with the protos.
func TestAppendAllowEqualsFormatJSON(t *testing.T) {
	limits := apitest.MustLimits(t, 1, "web/per_client 10/s 20", "web/login 5/m 5 hard")
	if got, want := string(appendAllow(nil, api.NoRule, &quota.Decision{Allowed: true, Why: quota.WhyNoLimit})), `{"allowed":true,"limit":null,"remaining":0,"retry_after":0,"why":"no_limit",`; !strings.HasPrefix(got, want) {
		t.Errorf("without a limit: %s", got)
	}
	for i := range limits.All() {
		l := &limits.All()[i]
		r := api.Prepare(l, nil)
		for _, why := range quota.Whys() {
			for _, retry := range []time.Duration{0, 1, time.Microsecond, 1500 * time.Millisecond, 400 * 24 * time.Hour, apiproto.Never} {
				d := quota.Decision{
					Allowed: retry == 0, Why: why, Limit: l, Remaining: 3, RetryAfter: retry,
					Wait: retry / 2, ResetAfter: retry, Shadow: retry > 1, Near: retry < 1, Tier: int(why) % 3,
				}
				want := string(apijson.Format(r.Response(&d)))
				if d.Allowed {
					want = strings.Replace(want, `"retry_after":null`, `"retry_after":0`, 1)
				}
				if got := string(appendAllow(nil, r, &d)); got != want {
					t.Fatalf("got  %s\nwant %s", got, want)
				}
				if why.String() != apijson.Word(quoratev1.Why(0).Descriptor(), protoreflect.EnumNumber(why)) {
					t.Errorf("why %v is %v in the proto", why, quoratev1.Why(why))
				}
			}
		}
	}
	if got := string(apijson.Format(durationpb.New(90 * time.Millisecond))); got != "0.09" {
		t.Errorf("90 ms is %s", got)
	}
	if got := string(apijson.Format(&quoratev1.KeyRate{Rate: math.Inf(1)})); !json.Valid([]byte(got)) {
		t.Errorf("infinity makes broken JSON: %s", got)
	}
}

// FuzzDecodeCheck checks that the decoder never panics, never accepts what encoding/json refuses,
// and reads the same values.
func FuzzDecodeCheck(f *testing.F) {
	for _, s := range []string{
		`{"namespace":"web","limit":"per_client","key":"203.0.113.7"}`, `{"namespace":"a\u0062","limit":"\"","key":"\ud83d\ude00","cost":12}`,
		`{"cost":null}`, `{"max_wait":1.5,"method":"GET","path":"/a"}`, `{"max_wait":null}`, `{"max_wait":1e300}`, `{"max_wait":-0}`, ` { } `, `{"key":"\`, `{"key":"\ud800"}`, `{"cost":-0}`, `{"cost":01}`, `{"cost":1`, `{"key":"a","key":"b"}`, "{\"key\":\"\x01\"}", `{,}`, `[]`, `{"\u006bey":"x"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var c api.Check
		fault := decodeCheck(b, &c)
		if checks, _ := decodeBatch(append(append([]byte(`{"checks":[`), b...), "]}"...)); fault == nil && (len(checks) != 1 || checks[0].Key != c.Key) {
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
		if c.Key.Namespace != want.Namespace || c.Key.LimitName.Limit != want.Limit || c.Key.Key != want.Key || c.Costs != (want.Cost != nil) || c.Costs && c.Cost != *want.Cost {
			t.Errorf("%q: read %+v, encoding/json %+v", b, c, want)
		}
		if c.Method != want.Method || c.Path != want.Path || c.Waits != (want.MaxWait != nil) || c.Waits && time.Duration(math.Round(*want.MaxWait*1e9)) != c.Wait {
			t.Errorf("%q: read %+v, encoding/json %+v", b, c, want)
		}
	})
}
