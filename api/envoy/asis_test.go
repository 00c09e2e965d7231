package envoy

import (
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
)

type client = ratelimitv3.RateLimitServiceClient

// rulesOf parses files of envoyproxy/ratelimit.
func rulesOf(t testing.TB, text string) *Rules {
	t.Helper()
	domains, err := config.ParseEnvoyRateLimits("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	rules, err := NewRules(domains)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// asIs serves unchanged rules on a node without limits.
func asIs(t testing.TB, text string, options ...func(*Options)) (client, *loneNode) {
	t.Helper()
	rules := rulesOf(t, text)
	n := newNode(t)
	o := Options{Rules: func() *Rules { return rules }, Now: n.wall}
	for _, f := range options {
		f(&o)
	}
	return dial(t, New(n, o)), n
}

// step is one request and its expected answer.
type step struct {
	hits        uint32
	descriptors string // separated by " ; "
	want        string
}

func play(t testing.TB, c client, domain string, steps ...step) {
	t.Helper()
	for _, s := range steps {
		expect(t, s.descriptors, ask(t, c, domain, s.hits, strings.Split(s.descriptors, " ; ")...), s.want)
	}
}

const readme = `
domain: edge
descriptors:
  - key: database
    value: users
    rate_limit: {unit: second, requests_per_unit: 5}
  - key: message_type
    value: marketing
    descriptors:
      - key: to_number
        rate_limit: {unit: day, requests_per_unit: 2}
  - key: to_number
    rate_limit: {unit: day, requests_per_unit: 3, name: numbers}
  - key: remote_address
    rate_limit: {unit: minute, requests_per_unit: 3}
  - key: remote_address
    value: 50.0.0.5
    rate_limit: {unit: minute, requests_per_unit: 0}
  - key: remote_address
    value: 127.0.0.1
  - key: path
    value: /api/*
    rate_limit: {unit: hour, requests_per_unit: 4}
  - key: path
    value: /api/*/users
    rate_limit: {unit: hour, requests_per_unit: 9}
  - key: ldap
    rate_limit: {unlimited: true, name: ldap}
`

func TestStatusesInOrder(t *testing.T) {
	c, _ := asIs(t, readme)
	play(t, c, "edge",
		step{0, "database=users ; nobody=1 ; ldap=x ; to_number=1 ; database=users", "OK: | OK  5/SECOND 4 | OK 0 | OK 4294967295 | OK numbers 3/DAY 2 | OK  5/SECOND 3"},
	)
}

// TestNothingNamed checks that a descriptor without entries, or with an empty key, is not limited,
// and that the request's other descriptors are decided.
func TestNothingNamed(t *testing.T) {
	c, _ := asIs(t, readme, func(o *Options) { o.Overrides = true })
	limit := &commonv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 0, Unit: typev3.RateLimitUnit_SECOND}
	res, err := c.ShouldRateLimit(t.Context(), &request{Domain: "edge", Descriptors: []*commonv3.RateLimitDescriptor{
		{}, desc("remote_address=1.2.3.4, =c"), desc("=c"), {Limit: limit}, desc("database=users"),
	}})
	if err != nil || res.OverallCode != okCode || len(res.Statuses) != 5 {
		t.Fatalf("%v, %v", res, err)
	}
	for i, st := range res.Statuses {
		if named := i == 4; st.Code != okCode || (st.CurrentLimit != nil) != named {
			t.Errorf("descriptor %d: %v", i, st)
		}
	}
}

func TestMostSpecific(t *testing.T) {
	c, _ := asIs(t, readme)
	play(t, c, "edge",
		step{0, "remote_address=1.2.3.4", "OK: | OK  3/MINUTE 2"},
		step{0, "remote_address=50.0.0.5", "OVER_LIMIT: | OVER_LIMIT  0/MINUTE 0"},
		step{0, "remote_address=127.0.0.1", "OK: | OK 0"},  // always passes
		step{0, "path=/api/7/users", "OK: | OK  4/HOUR 3"}, // the first in the file
		step{0, "path=/other", "OK: | OK 0"},
	)
}

func TestDepth(t *testing.T) {
	c, _ := asIs(t, readme)
	play(t, c, "edge",
		step{0, "message_type=marketing, to_number=1", "OK: | OK  2/DAY 1"},
		step{0, "message_type=marketing", "OK: | OK 0"},
		step{0, "to_number=1, message_type=marketing", "OK: | OK 0"},
		step{0, "to_number=1, to_number=1", "OK: | OK 0"},
	)
}

func TestOwnCounts(t *testing.T) {
	c, n := asIs(t, readme)
	play(t, c, "edge",
		step{0, "to_number=1", "OK: | OK numbers 3/DAY 2"},
		step{0, "to_number=2", "OK: | OK numbers 3/DAY 2"},
		step{0, "message_type=marketing, to_number=1", "OK: | OK  2/DAY 1"},
		step{0, "path=/api/a", "OK: | OK  4/HOUR 3"}, // each value separately
		step{0, "path=/api/b", "OK: | OK  4/HOUR 3"},
	)
	n.pass(24 * time.Hour)
	play(t, c, "edge", step{0, "to_number=1", "OK: | OK numbers 3/DAY 2"})
}

// TestOverChargesOthers checks that each descriptor is decided on its own, and that a limit that is
// used up does not keep the others from being charged.
func TestOverChargesOthers(t *testing.T) {
	c, _ := asIs(t, readme)
	play(t, c, "edge",
		step{0, "remote_address=50.0.0.5 ; to_number=1", "OVER_LIMIT: | OVER_LIMIT  0/MINUTE 0 | OK numbers 3/DAY 2"},
		step{0, "to_number=1 ; remote_address=50.0.0.5", "OVER_LIMIT: | OK numbers 3/DAY 1 | OVER_LIMIT  0/MINUTE 0"},
		step{0, "to_number=1", "OK: | OK numbers 3/DAY 0"},
		step{0, "to_number=1", "OVER_LIMIT: | OVER_LIMIT numbers 3/DAY 0"},
	)
}

func TestHitsAddend(t *testing.T) {
	c, _ := asIs(t, readme)
	play(t, c, "edge",
		step{0, "remote_address=a", "OK: | OK  3/MINUTE 2"},
		step{2, "remote_address=a", "OK: | OK  3/MINUTE 0"},
		step{2, "remote_address=b", "OK: | OK  3/MINUTE 1"},
		step{2, "remote_address=b", "OVER_LIMIT: | OVER_LIMIT  3/MINUTE 1"}, // a refusal charges nothing
		step{0, "remote_address=b", "OK: | OK  3/MINUTE 0"},
		step{3, "remote_address=c #1", "OK: | OK  3/MINUTE 2"}, // the descriptor's own takes precedence
		step{0, "remote_address=c #2", "OK: | OK  3/MINUTE 0"},
		step{3, "remote_address=d #1 ; path=/api/", "OK: | OK  3/MINUTE 2 | OK  4/HOUR 1"},
	)
}

func TestHitsZero(t *testing.T) {
	c, _ := asIs(t, readme)
	play(t, c, "edge",
		step{0, "remote_address=a #0", "OK: | OK  3/MINUTE 3"},
		step{0, "remote_address=a #0", "OK: | OK  3/MINUTE 3"},
		step{3, "remote_address=a", "OK: | OK  3/MINUTE 0"},
		step{0, "remote_address=a #0", "OVER_LIMIT: | OVER_LIMIT  3/MINUTE 0"},
	)
}

// TestHitsAfterTheFact checks that use that a descriptor reports afterwards counts although it is
// more than what is left, so that asking before and reporting after keeps a limit.
func TestHitsAfterTheFact(t *testing.T) {
	c, n := asIs(t, readme)
	play(t, c, "edge",
		step{0, "remote_address=a #0", "OK: | OK  3/MINUTE 3"},
		step{0, "remote_address=a #2", "OK: | OK  3/MINUTE 1"},
		step{0, "remote_address=a #0", "OK: | OK  3/MINUTE 1"},
		step{0, "remote_address=a #5", "OVER_LIMIT: | OVER_LIMIT  3/MINUTE 0"},
		step{0, "remote_address=a #0", "OVER_LIMIT: | OVER_LIMIT  3/MINUTE 0"},
		step{0, "remote_address=a", "OVER_LIMIT: | OVER_LIMIT  3/MINUTE 0"},
		step{0, "remote_address=a #18446744073709551615", "OVER_LIMIT: | OVER_LIMIT  3/MINUTE 0"},
	)
	n.pass(time.Minute)
	play(t, c, "edge", step{0, "remote_address=a #0", "OK: | OK  3/MINUTE 3"})
}

func TestNegativeHits(t *testing.T) {
	decisions := 0
	c, _ := asIs(t, readme, func(o *Options) { o.Seen = func(*quota.Decision) { decisions++ } })
	play(t, c, "edge",
		step{3, "remote_address=a", "OK: | OK  3/MINUTE 0"},
		step{0, "remote_address=a #-2", "OK: | OK  3/MINUTE 2"},
		step{0, "remote_address=a #-9", "OK: | OK  3/MINUTE 3"}, // never above the limit
		step{0, "nobody=a #-9", "OK: | OK 0"},
	)
	if decisions != 1 {
		t.Errorf("%d decisions were seen; what gives back decides nothing", decisions)
	}
}

// TestBooksWithReport checks that a caller without the permission report neither gives tokens back nor
// books what does not fit: neither charges anything.
func TestBooksWithReport(t *testing.T) {
	c, _ := asIs(t, readme, func(o *Options) {
		o.May = func(_ context.Context, p rbac.Permission, namespace string) error {
			if p == rbac.Report {
				return status.Errorf(codes.PermissionDenied, "no %v in %s", p, namespace)
			}
			return nil
		}
	})
	play(t, c, "edge",
		step{2, "remote_address=a", "OK: | OK  3/MINUTE 1"},
		step{0, "remote_address=a #-2", "rpc error: code = PermissionDenied desc = no report in edge"},
		step{0, "nobody=a #-2", "OK: | OK 0"},
		step{0, "remote_address=a #2", "OVER_LIMIT: | OVER_LIMIT  3/MINUTE 1"},
		step{0, "remote_address=a", "OK: | OK  3/MINUTE 0"},
	)
}

func TestUnknown(t *testing.T) {
	c, _ := asIs(t, readme)
	play(t, c, "edge", step{0, "nobody=1", "OK: | OK 0"})
	play(t, c, "nowhere", step{0, "database=users", "OK: | OK 0"})
}

func TestInvalid(t *testing.T) {
	c, _ := asIs(t, readme)
	many := func(n int) (out []*commonv3.RateLimitDescriptor) {
		for range n {
			out = append(out, desc("a=b"))
		}
		return out
	}
	long := desc("a")
	long.Entries[0].Value = strings.Repeat("x", MaxBytes)
	for _, tc := range []struct {
		req  *request
		want string
	}{
		{&request{Descriptors: many(1)}, "domain: is empty"},
		{&request{Domain: strings.Repeat("d", maxDomain+1), Descriptors: many(1)}, "domain: is 1025 bytes; at most 1024"},
		{&request{Domain: "edge"}, "descriptors: empty"},
		{&request{Domain: "edge", Descriptors: many(MaxDescriptors + 1)}, "descriptors: 129; at most 128"},
		{&request{Domain: "edge", Descriptors: []*commonv3.RateLimitDescriptor{desc(strings.Repeat("a=b, ", 64) + "a=b")}}, "descriptors[0].entries: 65; at most 64"},
		{&request{Domain: "edge", Descriptors: []*commonv3.RateLimitDescriptor{long}}, "descriptors: their keys and values have more than 2097152 bytes"},
	} {
		_, err := c.ShouldRateLimit(t.Context(), tc.req)
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(status.Convert(err).Message(), tc.want) {
			t.Errorf("got %v, want INVALID_ARGUMENT: %s", err, tc.want)
		}
	}
	if _, err := c.ShouldRateLimit(t.Context(), &request{Domain: "edge", Descriptors: many(MaxDescriptors)}); err != nil {
		t.Errorf("as many as there may be: %v", err)
	}
}

// TestLongValues checks that a value of any length is counted, separately from others.
func TestLongValues(t *testing.T) {
	c, _ := asIs(t, readme)
	long := strings.Repeat("v", 60<<10)
	for range 3 {
		expect(t, "a long value", ask(t, c, "edge", 0, "remote_address="+long), ask(t, c, "edge", 0, "remote_address="+long[:100]))
	}
	expect(t, "the fourth", ask(t, c, "edge", 0, "remote_address="+long), "OVER_LIMIT: | OVER_LIMIT  3/MINUTE 0")
	expect(t, "another", ask(t, c, "edge", 0, "remote_address="+long+"x"), "OK: | OK  3/MINUTE 2")
}

func TestUnits(t *testing.T) {
	c, n := asIs(t, `
domain: units
descriptors:
  - {key: a, rate_limit: {unit: second, requests_per_unit: 1}}
  - {key: b, rate_limit: {unit: MINUTE, requests_per_unit: 1}}
  - {key: c, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: d, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: e, rate_limit: {unit: Week, requests_per_unit: 1}}
  - {key: f, rate_limit: {unit: month, requests_per_unit: 1}}
  - {key: g, rate_limit: {unit: year, requests_per_unit: 4294967295}}
`)
	n.now = quota.Time(time.Date(2026, 11, 22, 12, 0, 0, 400e6, time.UTC).UnixNano())
	var req request
	req.Domain = "units"
	for _, k := range "abcdefg" {
		req.Descriptors = append(req.Descriptors, desc(string(k)+"=1"))
	}
	res, err := c.ShouldRateLimit(t.Context(), &req)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "units", told(res), "OK: | OK  1/SECOND 0 | OK  1/MINUTE 0 | OK  1/HOUR 0 | OK  1/DAY 0 | OK  1/WEEK 0 | OK  1/MONTH 0 | OK  4294967295/YEAR 4294967294")
	now := int64(n.now) / 1e9
	for i, per := range []int64{1, 60, 3600, 86400, 7 * 86400, 30 * 86400, 365 * 86400} {
		if got, want := res.Statuses[i].DurationUntilReset.AsDuration(), time.Duration(per-now%per)*time.Second; got != want {
			t.Errorf("%s is reset after %v, want %v", req.Descriptors[i].Entries[0].Key, got, want)
		}
	}
}

// TestUntilReset checks that the end of a window is given in whole seconds, also before its first
// hit and for a limit of 0.
func TestUntilReset(t *testing.T) {
	c, n := asIs(t, readme)
	n.now = quota.Time(time.Date(2026, 11, 22, 12, 0, 17, 600e6, time.UTC).UnixNano())
	for _, text := range []string{"remote_address=a #0", "remote_address=a", "remote_address=50.0.0.5", "remote_address=a #9"} {
		res, err := c.ShouldRateLimit(t.Context(), &request{Domain: "edge", Descriptors: []*commonv3.RateLimitDescriptor{desc(text)}})
		if err != nil {
			t.Fatal(err)
		}
		if got := res.Statuses[0].DurationUntilReset.AsDuration(); got != 43*time.Second {
			t.Errorf("%s: %v, want 43s", text, got)
		}
	}
}

func TestShadowMode(t *testing.T) {
	var seen []quota.Decision
	c, _ := asIs(t, `
domain: d
descriptors:
  - {key: a, rate_limit: {unit: minute, requests_per_unit: 1}, shadow_mode: true}
  - {key: b, rate_limit: {unit: minute, requests_per_unit: 1}}
`, func(o *Options) { o.Seen = func(d *quota.Decision) { seen = append(seen, *d) } })
	play(t, c, "d",
		step{0, "a=1", "OK: | OK  1/MINUTE 0"},
		step{0, "a=1", "OK: | OK  1/MINUTE 0"},
		step{0, "a=1 ; b=1", "OK: | OK  1/MINUTE 0 | OK  1/MINUTE 0"},
		step{0, "a=1 ; b=1", "OVER_LIMIT: | OK  1/MINUTE 0 | OVER_LIMIT  1/MINUTE 0"},
	)
	shadows := 0
	for _, d := range seen {
		if d.Shadow && !d.Allowed {
			t.Errorf("a decision in shadow that refuses: %+v", d)
		}
		if d.Shadow {
			shadows++
		}
	}
	if len(seen) != 6 || shadows != 3 {
		t.Errorf("%d decisions were seen, %d in shadow; want 6 and 3", len(seen), shadows)
	}
}

func TestQuotaMode(t *testing.T) {
	c, _ := asIs(t, `
domain: d
descriptors:
  - {key: a, rate_limit: {unit: minute, requests_per_unit: 1}, quota_mode: true}
  - {key: b, rate_limit: {unit: minute, requests_per_unit: 2}, quota_mode: true}
  - {key: c, rate_limit: {unit: minute, requests_per_unit: 9}}
`)
	play(t, c, "d",
		step{0, "a=1 ; b=1", "OK: | OK  1/MINUTE 0 | OK  2/MINUTE 1"},
		step{0, "a=1 ; b=1", "OK: | OVER_LIMIT  1/MINUTE 0 | OK  2/MINUTE 0"},
		step{0, "a=1 ; b=1 ; c=1", "OVER_LIMIT: | OVER_LIMIT  1/MINUTE 0 | OVER_LIMIT  2/MINUTE 0 | OK  9/MINUTE 8"},
	)
}

func TestReplaces(t *testing.T) {
	c, _ := asIs(t, `
domain: example7
descriptors:
  - key: key_1
    value: value_1
    descriptors:
      - {key: user, value: bkthomps, rate_limit: {name: specific_limit, requests_per_unit: 5, unit: minute}}
  - key: key_2
    value: value_2
    descriptors:
      - {key: user, value: bkthomps, rate_limit: {replaces: [{name: specific_limit}], requests_per_unit: 10, unit: minute}}
  - {key: open, rate_limit: {unlimited: true, name: open, replaces: [{name: specific_limit}]}}
  - {key: close, rate_limit: {unit: minute, requests_per_unit: 1, replaces: [{name: open}]}}
`)
	play(t, c, "example7",
		step{0, "key_1=value_1, user=bkthomps", "OK: | OK specific_limit 5/MINUTE 4"},
		step{0, "key_1=value_1, user=bkthomps ; key_2=value_2, user=bkthomps", "OK: | OK 0 | OK  10/MINUTE 9"},
		step{0, "key_1=value_1, user=bkthomps ; open=1", "OK: | OK 0 | OK 4294967295"},
		step{0, "open=1 ; close=1", "OK: | OK 4294967295 | OK  1/MINUTE 0"}, // an unlimited descriptor stays unlimited
		step{0, "key_1=value_1, user=bkthomps", "OK: | OK specific_limit 5/MINUTE 3"},
	)
}

func TestShareThreshold(t *testing.T) {
	c, _ := asIs(t, `
domain: d
descriptors:
  - key: file
    value: files/*
    share_threshold: true
    rate_limit: {unit: minute, requests_per_unit: 3}
    descriptors:
      - {key: user, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: file, value: own/*, rate_limit: {unit: minute, requests_per_unit: 3}}
`)
	play(t, c, "d",
		step{0, "file=files/a", "OK: | OK  3/MINUTE 2"},
		step{0, "file=files/b", "OK: | OK  3/MINUTE 1"},
		step{0, "file=files/a, user=x", "OK: | OK  2/MINUTE 1"},
		step{0, "file=files/b, user=x", "OK: | OK  2/MINUTE 0"},
		step{0, "file=files/b, user=y", "OK: | OK  2/MINUTE 1"},
		step{0, "file=own/a", "OK: | OK  3/MINUTE 2"},
		step{0, "file=own/b", "OK: | OK  3/MINUTE 2"},
	)
}

func override(text string, n uint32, unit typev3.RateLimitUnit, multiplier *wrapperspb.UInt32Value) *commonv3.RateLimitDescriptor {
	d := desc(text)
	d.Limit = &commonv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: n, Unit: unit, UnitMultiplier: multiplier}
	return d
}

func TestOverrides(t *testing.T) {
	const minute = typev3.RateLimitUnit_MINUTE
	c, _ := asIs(t, readme, func(o *Options) { o.Overrides = true })
	send := func(domain string, d *commonv3.RateLimitDescriptor) string {
		res, err := c.ShouldRateLimit(t.Context(), &request{Domain: domain, Descriptors: []*commonv3.RateLimitDescriptor{d}})
		if err != nil {
			return err.Error()
		}
		return told(res)
	}
	for _, tc := range []struct {
		domain string
		d      *commonv3.RateLimitDescriptor
		want   string
	}{
		{"edge", override("remote_address=a", 7, minute, nil), "OK: | OK  7/MINUTE 6"},
		{"edge", override("remote_address=a", 7, minute, nil), "OK: | OK  7/MINUTE 5"},
		{"edge", override("remote_address=b", 7, minute, nil), "OK: | OK  7/MINUTE 6"},
		{"edge", override("remote_address=50.0.0.5", 1, minute, nil), "OK: | OK  1/MINUTE 0"},
		{"edge", override("remote_address=a", 0, minute, nil), "OVER_LIMIT: | OVER_LIMIT  0/MINUTE 0"},
		{"edge", override("remote_address=a", 2, minute, wrapperspb.UInt32(10)), "OK: | OK  2/10MINUTE 1"},
		{"edge", override("remote_address=a", 2, minute, wrapperspb.UInt32(60)), "OK: | OK  2/HOUR 1"},
		{"edge", override("what=ever", 2, typev3.RateLimitUnit_YEAR, wrapperspb.UInt32(1)), "OK: | OK  2/YEAR 1"},
		{"nowhere", override("what=ever", 2, minute, nil), "OK: | OK 0"}, // as in envoyproxy/ratelimit, the domain must be known
		{"edge", override("a=b", 2, typev3.RateLimitUnit_UNKNOWN, nil), "rpc error: code = InvalidArgument desc = descriptors[0].limit.unit: is UNKNOWN; must be one of SECOND, MINUTE, HOUR, DAY, MONTH, YEAR"},
		{"edge", override("a=b", 2, 99, nil), "rpc error: code = InvalidArgument desc = descriptors[0].limit.unit: is 99; must be one of SECOND, MINUTE, HOUR, DAY, MONTH, YEAR"},
		{"edge", override("a=b", 2, minute, wrapperspb.UInt32(0)), "rpc error: code = InvalidArgument desc = descriptors[0].limit.unit_multiplier: is 0; must be 1 to 527040 with this unit"},
		{"edge", override("a=b", 2, minute, wrapperspb.UInt32(math.MaxUint32)), "rpc error: code = InvalidArgument desc = descriptors[0].limit.unit_multiplier: is 4294967295; must be 1 to 527040 with this unit"},
	} {
		expect(t, tc.d.String(), send(tc.domain, tc.d), tc.want)
	}
	expect(t, "without it, the rule", ask(t, c, "edge", 0, "remote_address=a"), "OK: | OK  3/MINUTE 2")
}

// TestNoRoom checks what happens to a limit for which the node has no room: it is never OK without a
// count. The answer is over the limit if another descriptor is; else it is an error, after which the
// proxy follows its failure mode. Callers share the room, and rules of files have what is left.
func TestNoRoom(t *testing.T) {
	const minute = typev3.RateLimitUnit_MINUTE
	type who struct{}
	rules := rulesOf(t, readme+"  - {key: tried, rate_limit: {unit: minute, requests_per_unit: 77}, shadow_mode: true}\n")
	reg := prometheus.NewRegistry()
	var ended []string
	unseen := 0
	n := newNode(t)
	s := New(n, Options{
		Rules: func() *Rules { return rules }, Now: n.wall, Overrides: true, Hits: NewHits(reg),
		Ended: func(code string) { ended = append(ended, code) },
		Owner: func(ctx context.Context) string { owner, _ := ctx.Value(who{}).(string); return owner },
		Seen: func(d *quota.Decision) {
			if d.Limit == nil {
				unseen++
			}
		},
	})
	send := func(owner string, d ...*commonv3.RateLimitDescriptor) string {
		res, err := s.ShouldRateLimit(context.WithValue(t.Context(), who{}, owner), &request{Domain: "edge", Descriptors: d})
		if err != nil {
			return status.Code(err).String() + " " + strings.SplitAfter(status.Convert(err).Message(), ": ")[0]
		}
		return told(res)
	}
	const noRoom = "ResourceExhausted descriptors[0]: "
	number := uint32(1000)
	fill := func(owner string) uint32 {
		for first := number; ; number++ {
			switch got := send(owner, override("a=b", number, minute, nil)); {
			case got == noRoom:
				return number - first
			case !strings.HasPrefix(got, "OK: | OK  "), number > 20_000:
				t.Fatalf("%s brings %d: %s", owner, number, got)
			}
		}
	}
	first := fill("ann")
	unseen, ended = 0, nil
	more := override("a=b", number+1, minute, nil)
	expect(t, "one more", send("ann", more), noRoom)
	gives := override("a=b", number+1, minute, nil)
	gives.IsNegativeHits = true
	expect(t, "giving back", send("ann", gives), noRoom)
	asks := override("a=b", number+1, minute, nil)
	asks.HitsAddend = wrapperspb.UInt64(0)
	expect(t, "a question", send("ann", asks), noRoom)
	if unseen != 2 || strings.Join(ended, " ") != "resource_exhausted resource_exhausted resource_exhausted" { // a refund decides nothing
		t.Errorf("%d seen, ended %v", unseen, ended)
	}
	expect(t, "one that has a place", send("ann", override("a=c", 1000, minute, nil)), "OK: | OK  1000/MINUTE 999")
	expect(t, "a rule of the file", send("ann", desc("remote_address=a")), "OK: | OK  3/MINUTE 2")
	expect(t, "another is under its limit", send("ann", more, desc("remote_address=a")), noRoom)
	expect(t, "and counts", send("ann", desc("remote_address=a")), "OK: | OK  3/MINUTE 0")
	expect(t, "another is over", send("ann", more, desc("remote_address=a")), "OVER_LIMIT: | UNKNOWN 0 | OVER_LIMIT  3/MINUTE 0")
	if second := fill("bob"); second < (first-1)/8 {
		t.Errorf("bob has %d limits beside %d of ann", second, first)
	}
	for i := range 9 {
		fill("address:192.0.2." + strconv.Itoa(i))
	}
	expect(t, "a rule of the file, at the total", send("ann", desc("path=/api/x")), noRoom)
	expect(t, "a shadow, at the total", send("ann", desc("tried=x")), "OK: | OK 0")
	expect(t, "both", send("ann", desc("tried=x"), desc("path=/api/x")), "ResourceExhausted descriptors[1]: ")
	got, err := testutil.GatherAndCount(reg, "quorate_envoy_rls_hits_total")
	if err != nil || got != 3 { // within, near and over of remote_address: what was not counted is none of them
		t.Errorf("%d series of hits, %v", got, err)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, JSONPath, strings.NewReader(`{"domain": "edge", "descriptors": [{"entries": [{"key": "path", "value": "/api/x"}]}]}`)))
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "no room") {
		t.Errorf("in JSON: %d %s", w.Code, w.Body)
	}
}

// TestOverridesOff checks that a caller's own limit is ignored unless the settings allow it.
func TestOverridesOff(t *testing.T) {
	c, _ := asIs(t, readme)
	res, err := c.ShouldRateLimit(t.Context(), &request{Domain: "edge", Descriptors: []*commonv3.RateLimitDescriptor{override("remote_address=a", 7, typev3.RateLimitUnit_DAY, nil)}})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "an override", told(res), "OK: | OK  3/MINUTE 2")
}

// TestNoJoinedKeys checks that descriptors that would join to the same text are different.
func TestNoJoinedKeys(t *testing.T) {
	c, _ := asIs(t, `
domain: d
descriptors:
  - {key: a, value: b_c, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: a_b, rate_limit: {unit: minute, requests_per_unit: 5}}
  - key: x
    rate_limit: {unit: minute, requests_per_unit: 5}
    descriptors:
      - {key: y, rate_limit: {unit: minute, requests_per_unit: 5}}
`)
	play(t, c, "d",
		step{0, "a=b_c", "OK: | OK  5/MINUTE 4"},
		step{0, "a_b=c", "OK: | OK  5/MINUTE 4"},
		step{0, "x=1/y=2", "OK: | OK  5/MINUTE 4"},
		step{0, "x=1, y=2", "OK: | OK  5/MINUTE 4"},
	)
}
