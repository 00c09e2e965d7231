package envoy

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/descriptor"
	"github.com/quorate/quorate/internal/quota"
)

const nested = `
domain: d
descriptors:
  - key: a
    value: x
    descriptors:
      - {key: b, value: "y/*", rate_limit: {unit: day, requests_per_unit: 3}}
      - {key: b, value: "y/z*z", rate_limit: {unit: day, requests_per_unit: 2}}
      - {key: b, rate_limit: {unit: hour, requests_per_unit: 4}}
  - {key: a, value: "x.y-z", rate_limit: {unit: hour, requests_per_unit: 2}, shadow_mode: true}
  - {key: a, value: "-", rate_limit: {unlimited: true}}
  - {key: a, value: "%"}
  - key: a
    rate_limit: {unit: week, requests_per_unit: 5}
    descriptors:
      - {key: b, rate_limit: {unit: year, requests_per_unit: 6}}
`

// TestConvertedDecidesTheSame sends requests to unchanged rules and to the limits that "quorate
// convert" makes of them.
func TestConvertedDecidesTheSame(t *testing.T) {
	example, err := os.ReadFile("../../examples/envoy/ratelimit.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"nested": strings.Replace(nested, "y/z*z", "z*z", 1), "readme": strings.Replace(readme, "/api/*/users", "/other/*", 1), "example": string(example)} {
		t.Run(name, func(t *testing.T) {
			if told := playBoth(t, text, 1, 400); told < 200 {
				t.Errorf("only %d of 400 requests met a limit: too few to say that it is the same", told)
			}
		})
	}
}

// playBoth sends requests to both, and returns how many met a limit.
func playBoth(t *testing.T, text string, seed uint64, count int) (met int) {
	t.Helper()
	domains, err := config.ParseEnvoyRateLimits("f", []byte(text))
	if err != nil || len(domains) != 1 {
		return 0
	}
	rules, err := NewRules(domains)
	if err != nil {
		t.Fatal(err)
	}
	converted, err := config.Convert("envoy-ratelimit", "f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	limits, err := config.ParseLimits("f", converted.YAML)
	if err != nil {
		t.Fatalf("%v:\n%s", err, converted.YAML)
	}
	one, other := newNode(t), newNode(t, limits...)
	asIs := New(one, Options{Now: one.wall, Headers: HeadersNone, Rules: func() *Rules { return rules }})
	asLimits := New(other, Options{Now: other.wall, Headers: HeadersNone})
	r := rand.New(rand.NewPCG(seed, 7))
	for range count {
		req := &request{Domain: domains[0].Name, HitsAddend: r.Uint32N(3)}
		for range 1 + r.IntN(3) {
			req.Descriptors = append(req.Descriptors, some(r, domains[0].Tree.Rules()))
		}
		a, errA := asIs.decide(t.Context(), req)
		b, errB := asLimits.decide(t.Context(), req)
		if errA != nil || errB != nil {
			t.Fatalf("%v: %v, %v", req, errA, errB)
		}
		if x, y := plainly(a), plainly(b); x != y {
			t.Fatalf("%v:\n  as it is %s\nconverted %s", req, x, y)
		}
		for _, st := range a.Statuses {
			if st.CurrentLimit != nil {
				met++
				break
			}
		}
		if pause := time.Duration(r.IntN(3)) * 20 * time.Minute; pause > 0 {
			one.pass(pause)
			other.pass(pause)
		}
	}
	return met
}

// some returns a random descriptor that matches a rule, or almost does.
func some(r *rand.Rand, rules []*descriptor.Rule) *commonv3.RateLimitDescriptor {
	d := &commonv3.RateLimitDescriptor{}
	values := []string{"x", "", "x.y-z", "y/1", "y/zz", "y/z", "%", "*", "-", "a/b"}
	if len(rules) == 0 {
		return desc("a=x")
	}
	for _, s := range rules[r.IntN(len(rules))].Steps {
		v := strings.ReplaceAll(s.Value, "*", values[r.IntN(len(values))])
		if v == "" || r.IntN(8) == 0 {
			v = values[r.IntN(len(values))]
		}
		d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: s.Key, Value: v})
	}
	if r.IntN(4) == 0 {
		d.HitsAddend = wrapperspb.UInt64(uint64(r.IntN(4)))
		d.IsNegativeHits = r.IntN(3) == 0
	}
	return d
}

// plainly returns the part that must be the same: everything but the names of limits.
func plainly(res *response) string {
	for _, st := range res.Statuses {
		if st.CurrentLimit != nil {
			st.CurrentLimit.Name = ""
		}
	}
	return told(res) + " " + reset(res)
}

func reset(res *response) (out string) {
	for _, st := range res.Statuses {
		out += " " + st.DurationUntilReset.AsDuration().String()
	}
	return out
}

// FuzzConverted is TestConvertedDecidesTheSame for any file, unless the notes of the conversion say
// that the result differs.
func FuzzConverted(f *testing.F) {
	f.Add(nested, uint64(1))
	f.Add(readme, uint64(2))
	f.Add("domain: d\ndescriptors:\n- key: a..b\n  value: '*--.-x'\n  rate_limit: {unit: hour, requests_per_unit: 2}\n", uint64(3))
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		if len(text) > 1000 { // a file is read four times: 4000 bytes take a tenth of a second
			return
		}
		converted, err := config.Convert("envoy-ratelimit", "f", []byte(text))
		if err != nil {
			return
		}
		for _, n := range converted.Notes {
			if strings.Contains(n.Do, "serve the file as it is") {
				return
			}
		}
		playBoth(t, text, seed, 30)
	})
}

// FuzzRequest decides any message from the wire and checks that there is one status per descriptor,
// that the overall code follows from them, and that no key is longer than keys may be.
func FuzzRequest(f *testing.F) {
	for _, req := range []*request{
		{Domain: "edge", Descriptors: []*commonv3.RateLimitDescriptor{desc("database=users"), desc("path=/api/1 #7")}},
		{Domain: "web", HitsAddend: 3, Descriptors: []*commonv3.RateLimitDescriptor{desc("ip=10.0.0.1 #-2"), override("a=b", 4, 3, wrapperspb.UInt32(7))}},
	} {
		data, err := proto.Marshal(req)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	rules := rulesOf(f, readme)
	f.Fuzz(func(t *testing.T, data []byte) {
		req := &request{}
		if proto.Unmarshal(data, req) != nil {
			return
		}
		n := newNode(t, nativeLimits()...)
		res, err := New(n, Options{Now: n.wall, Overrides: true, Headers: HeadersBoth, Rules: func() *Rules { return rules }}).decide(t.Context(), req)
		if err != nil {
			if len(n.asked) > 0 {
				t.Fatalf("%v after a charge", err)
			}
			return
		}
		if len(res.Statuses) != len(req.Descriptors) {
			t.Fatalf("%d statuses of %d descriptors", len(res.Statuses), len(req.Descriptors))
		}
		over := false
		for _, st := range res.Statuses {
			over = over || st.Code == overCode
		}
		if over != (res.OverallCode == overCode) {
			t.Fatalf("%v", res)
		}
		for _, one := range n.asked {
			if k := one.Key; k.Key == "" || len(k.Key) > quota.MaxKeyLen || quota.CheckName("", k.Namespace) != nil {
				t.Fatalf("asked for %q", k)
			}
		}
	})
}
