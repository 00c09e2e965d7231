package rest

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apitest"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/quota"
)

func TestLimitLife(t *testing.T) {
	n := apitest.New(t).With(t, "web/a 1/s 1", "web/b 2/s 2")
	walk(t, n, []step{
		{"GET", "/v1/limits", "", 200, `"yaml":""}`, `ETag: "7"`},
		{"GET", "/v1/limits?file=true", "", 200, `"yaml":"web/a 1/s 1\nweb/b 2/s 2\n"}`, ""},
		{"GET", "/v1/limits?file=yes", "", 400, `file: is \"yes\"; must be true or false`, ""},
		{"GET", "/v1/limits?version=x", "", 400, `version: is \"x\"; must be a whole number from 0 on`, ""},
		{"GET", "/v1/limits?version=99", "", 404, "limits: unknown version 99; the history has 7 to 7", ""},
		// A dry run compares and changes nothing.
		{"PUT", "/v1/limits?dry_run=true", "web/a 1/s 0\nweb/c 1/s 1", 200, `{"version":7,"changed":true,"changes":[{"namespace":"web","limit":"a","kind":"changed","fields":[{"field":"burst","before":"1","after":"0"}]},{"namespace":"web","limit":"b","kind":"removed","fields":[{"field":"rate","before":"2/s","after":""},{"field":"burst","before":"2","after":""}]},{"namespace":"web","limit":"c","kind":"added"`, ""},
		{"PUT", "/v1/limits?dry_run=true", "web/a 1/s 0", 200, `"findings":["web/a: refuses everything"]}`, ""},
		{"PUT", "/v1/limits?dry_run=true", "web/a 1/s 1\nweb/b 2/s 2", 200, `{"version":7,"changed":false,"changes":[],"findings":[]}`, ""},
		{"PUT", "/v1/limits?dry_run=true&expected_version=6", "web/a 1/s 1", 409, "expected version 6, but version 7 is active", ""},
		{"PUT", "/v1/limits?dry_run=true", "web/a 1/s 1 parent=x", 400, "parent: unknown limit web/x", ""},
		{"GET", "/v1/limits/versions", "", 200, `{"versions":[{"version":7,"at":"2027-01-15T08:00:00Z","author":"","comment":"the first","rollback_to":0,"limits":4,"added":1,"changed":2,"removed":3}]}`, ""},
		{"PUT", "/v1/limits?expected_version=7&author=ann&comment=more+for+a", "web/a 5/s 5", 200, `{"version":8,"changed":true`, ""},
		{"PUT", "/v1/limits?expected_version=7", "web/a 6/s 6", 409, "limits: expected version 7, but version 8 (by ann) is active; read it", ""},
		{"PUT", "/v1/limits?comment=" + strings.Repeat("x", 513), "web/a 6/s 6", 400, "comment: is 513 bytes; at most 512", ""},
		{"PUT", "/v1/limits?author=" + strings.Repeat("x", 129), "web/a 6/s 6", 400, "author: is 129 bytes; at most 128", ""},
		{"PUT", "/v1/limits?yaml=x", "web/a 6/s 6", 400, `yaml: unknown query parameter`, ""},
		{"GET", "/v1/limits?version=7", "", 200, `{"version":7,"limits":[{"namespace":"web","name":"a","rate":"1/s"`, ""},
		{"POST", "/v1/limits:diff", `{"from":{"version":7}}`, 200, `{"changes":[{"namespace":"web","limit":"a","kind":"changed","fields":[{"field":"rate","before":"1/s","after":"5/s"},{"field":"burst","before":"1","after":"5"}]},{"namespace":"web","limit":"b","kind":"removed"`, ""},
		{"POST", "/v1/limits:diff", `{"to":{"yaml":"web/a 5/s 5"}}`, 200, `{"changes":[]}`, ""},
		{"POST", "/v1/limits:diff", `{"to":{"yaml":"bad","source":"f"}}`, 400, "to.yaml: f:1:1: first fault", ""},
		{"POST", "/v1/limits:diff", `{"to":{"yaml":"web/a 1/s 1 parent=x"}}`, 400, "to.yaml: limit web/a: parent", ""},
		{"POST", "/v1/limits:diff", `{"to":{"yaml":"x","version":3}}`, 400, "to: has version 3 and a file; give one of them", ""},
		{"POST", "/v1/limits:diff", `{"to":{"version":-1}}`, 400, "to.version: is -1; must be a whole number from 0 on", ""},
		{"POST", "/v1/limits:diff", `{"to":{"version":33}}`, 404, "unknown version 33", ""},
		{"POST", "/v1/limits:rollback", `{"version":7,"comment":"too much","author":"bob","expected_version":8}`, 200, `{"version":9,"changed":true}`, ""},
		{"POST", "/v1/limits:rollback", `{"version":7,"expected_version":8}`, 409, "expected version 8, but version 9 (by bob)", ""},
		{"POST", "/v1/limits:rollback", `{}`, 400, "version: is 0; must be the version to bring back", ""},
		{"POST", "/v1/limits:rollback", `{"version":50}`, 404, "unknown version 50; the history has 7 to 9", ""},
		{"GET", "/v1/limits/versions?max=1", "", 200, `{"versions":[{"version":9,"at":"2027-01-15T08:00:00Z","author":"bob","comment":"too much","rollback_to":7,`, ""},
		{"GET", "/v1/limits/versions?before=8", "", 200, `{"versions":[{"version":7,`, ""},
		{"GET", "/v1/limits/versions?max=1001", "", 400, "max: 1001; must be 1 to 1000, or 0 for 20", ""},
		{"DELETE", "/v1/limits/web/a?expected_version=9&comment=gone", "", 200, `{"version":10}`, ""},
		{"DELETE", "/v1/limits/web/a", "", 404, "limits[0]: unknown limit web/a", ""},
		{"DELETE", "/v1/limits/web/b?expected_version=9", "", 409, "expected version 9, but version 10", ""},
		{"DELETE", "/v1/limits/web/b%20b", "", 400, "limit:", ""},
		{"GET", "/v1/limits", "", 200, `{"version":10,"limits":[{"namespace":"web","name":"b"`, ""},
	})
}

func TestValidateLimits(t *testing.T) {
	walk(t, apitest.New(t), []step{
		{"POST", "/v1/limits:validate", "web/a 1/s 0\nweb/b 1/s 1", 200, `{"valid":true,"faults":"","findings":["web/a: refuses everything"],"limits":2}`, ""},
		{"POST", "/v1/limits:validate?source=f", "bad", 200, `{"valid":false,"faults":"f:1:1: first fault\nf:2:5: second fault","findings":[],"limits":0}`, ""},
		{"POST", "/v1/limits:validate", "web/a 1/s 1\nweb/a 1/s 1", 200, `{"valid":false,"faults":"limit web/a: is defined twice"`, ""},
		{"POST", "/v1/limits:validate", "", 400, "yaml: the body is empty", ""},
		{"POST", "/v1/limits:validate", strings.Repeat("x", apiproto.MaxLimitsFile+1), 413, "larger than", ""},
	})
	c := quoratev1.NewLimitServiceClient(dialGRPC(t, apitest.New(t), api.Options{}))
	res, err := c.ValidateLimits(t.Context(), &quoratev1.ValidateLimitsRequest{Yaml: "bad"})
	if err != nil || res.Valid || res.Faults == "" {
		t.Errorf("faults are an answer: %v %v", res, err)
	}
}

// TestDeleteStartsAgain checks that a delete without an expected version starts over when a
// concurrent change wins.
func TestDeleteStartsAgain(t *testing.T) {
	n := apitest.New(t).With(t, "web/a 1/s 1", "web/b 1/s 1", "web/c 1/s 1 parent=b")
	c := quoratev1.NewLimitServiceClient(dialGRPC(t, n, api.Options{}))
	del := func(names ...string) error {
		req := &quoratev1.DeleteLimitsRequest{}
		for _, name := range names {
			req.Limits = append(req.Limits, &quoratev1.LimitRef{Namespace: "web", Limit: name})
		}
		_, err := c.DeleteLimits(t.Context(), req)
		return err
	}
	n.Rivals = 2
	if err := del("a"); err != nil || n.Active.Version != 10 {
		t.Errorf("after two rivals: %v at version %d, want 10", err, n.Active.Version)
	}
	n.Rivals = 5
	if err := del("c"); status.Code(err) != codes.Aborted {
		t.Errorf("after too many rivals: %v", err)
	}
	n.Rivals = 0
	if err := del("b"); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "parent: unknown limit web/b") {
		t.Errorf("a parent was removed: %v", err)
	}
	if err := del("b", "c"); err != nil || len(n.Active.All()) != 0 {
		t.Errorf("both: %v, left %v", err, n.Active.All())
	}
	if err := del(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("none: %v", err)
	}
}

// lateNode has not applied the newest version of the limits yet.
type lateNode struct {
	*apitest.Node
	before *quota.Limits
	until  time.Time
}

func (n *lateNode) Limits() *quota.Limits {
	if time.Now().Before(n.until) {
		return n.before
	}
	return n.Node.Limits()
}

// TestDeleteOnALateNode checks that a delete from an expected version undoes nothing of that version, at a node
// that has not applied it yet.
func TestDeleteOnALateNode(t *testing.T) {
	for late, ok := range map[time.Duration]bool{0: true, 100 * time.Millisecond: true, 3 * time.Second: false} {
		n := &lateNode{Node: apitest.New(t), until: time.Now().Add(late)}
		n.before = n.Active
		_, _, err := n.ChangeLimits(t.Context(), quota.Change{Limits: apitest.MustLimits(t, 0, "web/a 1/s 1", "web/login 1/m 1 hard").All(), Expect: 7})
		if err != nil {
			t.Fatal(err)
		}
		c := quoratev1.NewLimitServiceClient(dialService(t, api.New(n, api.Options{}), nil))
		_, err = c.DeleteLimits(t.Context(), &quoratev1.DeleteLimitsRequest{ExpectedVersion: proto.Uint64(8), Limits: []*quoratev1.LimitRef{{Namespace: "web", Limit: "login"}}})
		var left []string
		for _, l := range n.Active.All() {
			left = append(left, l.LimitName.String())
		}
		want := []string{"web/a"}
		if !ok {
			want = []string{"web/a", "web/login"}
		}
		if (err == nil) != ok || !ok && status.Code(err) != codes.Aborted || !slices.Equal(left, want) {
			t.Errorf("late by %v: %v; left are %v, want %v", late, err, left, want)
		}
	}
}

func TestConflictOverGRPC(t *testing.T) {
	n := apitest.New(t)
	c := quoratev1.NewLimitServiceClient(dialGRPC(t, n, api.Options{}))
	ctx := metadata.AppendToOutgoingContext(t.Context(), "quorate-user", "ann", "x-forwarded-user", "proxy")
	if _, err := c.ApplyLimits(ctx, &quoratev1.ApplyLimitsRequest{Yaml: "web/a 1/s 1"}); err != nil || n.Versions[0].By != "ann" {
		t.Errorf("%v by %q, want ann", err, n.Versions[0].By)
	}
	_, err := c.ApplyLimits(ctx, &quoratev1.ApplyLimitsRequest{Yaml: "web/a 1/s 1", ExpectedVersion: proto.Uint64(7), Author: "eve"})
	if st := status.Convert(err); st.Code() != codes.Aborted || !strings.Contains(st.Message(), "version 7, but version 8 (by ann)") {
		t.Errorf("%v", err)
	}
	if _, err := c.ApplyLimits(ctx, &quoratev1.ApplyLimitsRequest{Yaml: "web/a 1/s 1", Author: "\xff"}); err == nil {
		t.Error("broken UTF-8 was taken")
	}
}

// TestHeaders checks that headers may carry the author and the expected version, and that Accept
// may ask for a limit file.
func TestHeaders(t *testing.T) {
	n := apitest.New(t).With(t, "web/a 1/s 1")
	srv := serveHTTP(t, n)
	send := func(method, path, body string, headers ...string) *http.Response {
		req, err := http.NewRequest(method, srv.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res
	}
	if res := send("GET", "/v1/limits", "", "Accept", "application/yaml"); res.Header.Get("Content-Type") != "application/yaml" || res.ContentLength != int64(len("web/a 1/s 1\n")) {
		t.Errorf("%v", res)
	}
	for _, c := range []struct {
		header string
		code   int
	}{{`"6"`, 409}, {"6", 409}, {`"7"`, 200}, {"*", 200}, {"W/x", 400}} {
		if res := send("PUT", "/v1/limits", "web/a 1/s 1", "If-Match", c.header, "X-Forwarded-User", "proxy"); res.StatusCode != c.code {
			t.Errorf("If-Match %s: %d, want %d", c.header, res.StatusCode, c.code)
		}
	}
	if n.Versions[0].By != "proxy" {
		t.Errorf("by %q, want proxy", n.Versions[0].By)
	}
	if res := send("PUT", "/v1/limits?expected_version=9", "web/a 1/s 1", "If-Match", "8"); res.StatusCode != http.StatusBadRequest {
		t.Errorf("two versions: %d", res.StatusCode)
	}
	if res := send("DELETE", "/v1/limits/web/a", "", "If-Match", `"7"`, "Quorate-User", "ann"); res.StatusCode != http.StatusConflict {
		t.Errorf("a stale delete: %d", res.StatusCode)
	}
}

func TestOverrides(t *testing.T) {
	n := apitest.New(t).With(t, "web/a 1/s 1", "web/w 5/m 5 fixed")
	set := func(o string) string { return `{"overrides":[{"namespace":"web",` + o + `}]}` }
	walk(t, n, []step{
		{"PUT", "/v1/overrides", set(`"limit":"a","key":"t1","burst":50,"rate":"10/s","expires":"2100-01-02T03:04:05Z","comment":"until then","author":"ann"`), 200, `{"set":1}`, ""},
		{"PUT", "/v1/overrides", set(`"limit":"a","key":"t/2","scale":1.5`), 200, `{"set":1}`, ""},
		{"PUT", "/v1/overrides", set(`"limit":"w","key":"t1","class":"banned"`), 200, `{"set":1}`, ""},
		{"GET", "/v1/overrides:get?namespace=web&limit=a&key=t1", "", 200, `{"override":{"namespace":"web","limit":"a","key":"t1","class":"counted","rate":"10/s","burst":50,"scale":0,"expires":"2100-01-02T03:04:05Z","comment":"until then","author":"ann","at":"2`, ""},
		{"GET", "/v1/overrides:get?namespace=web&limit=a&key=t/2", "", 200, `"burst":null,"scale":1.5,"expires":null`, ""},
		{"GET", "/v1/overrides:get?namespace=web&limit=a&key=t3", "", 404, `unknown override of web/a for \"t3\"`, ""},
		{"GET", "/v1/overrides?max=2", "", 200, `"total":3,"next":"web/a/t1"}`, ""},
		{"GET", "/v1/overrides?after=web/a/t/2", "", 200, `{"overrides":[{"namespace":"web","limit":"a","key":"t1"`, ""},
		{"GET", "/v1/overrides?after=web/a/t1&namespace=web", "", 200, `{"overrides":[{"namespace":"web","limit":"w","key":"t1","class":"banned"`, ""},
		{"GET", "/v1/overrides?after=web", "", 400, `after: is \"web\"; must be next of the previous page`, ""},
		{"GET", "/v1/overrides?max=-1", "", 400, `max: is \"-1\"`, ""},
		{"GET", "/v1/overrides?namespace=a%20b", "", 400, "namespace:", ""},
		{"GET", "/v1/overrides?limit=a", "", 400, "namespace: is empty", ""},
		{"GET", "/v1/keys?namespace=web&limit=a&key=t1", "", 200, `"override":{"namespace":"web","limit":"a","key":"t1"`, ""},
		{"PUT", "/v1/overrides", set(`"limit":"a","key":"k"`), 400, "overrides[0]: rate, burst, scale, unlimited, banned: none is given", ""},
		{"PUT", "/v1/overrides", set(`"limit":"a","key":"k","rate":"x"`), 400, `overrides[0].rate: \"x\": write it as tokens/period`, ""},
		{"PUT", "/v1/overrides", set(`"limit":"w","key":"k","rate":"1/s"`), 400, "web/w is fixed, not a token bucket; give burst, the count", ""},
		{"PUT", "/v1/overrides", set(`"limit":"a","key":"k","scale":-1`), 400, "overrides[0].scale: -1; must be 0.000001 to 1000000, or 0 for none", ""},
		{"PUT", "/v1/overrides", set(`"limit":"a","key":"k","burst":-1`), 400, "overrides[0].burst: -1; must be 0 to", ""},
		{"PUT", "/v1/overrides", set(`"limit":"a","key":"k","class":"vip"`), 400, `overrides[0].class: is \"vip\"; must be one of counted, unlimited, banned`, ""},
		{"PUT", "/v1/overrides", set(`"limit":"a","key":"k","burst":1,"expires":"2001-01-01T00:00:00Z"`), 400, "overrides[0].expires: 2001-01-01T00:00:00Z has passed; must be in the future", ""},
		{"PUT", "/v1/overrides", set(`"limit":"a","key":"k","burst":1,"expires":"Friday"`), 400, `overrides[0].expires: is \"Friday\"; must be a time such as 2027-01-31T18:00:00Z`, ""},
		{"PUT", "/v1/overrides", set(`"limit":"none","key":"k","burst":1`), 404, "overrides[0].limit: unknown limit web/none", ""},
		{"PUT", "/v1/overrides", set(`"limit":"a b","key":"k","burst":1`), 400, `overrides[0].limit: \"a b\" has ' '`, ""},
		{"PUT", "/v1/overrides", `{"overrides":[]}`, 400, "overrides: 0 overrides; must be 1 to 1000", ""},
		{"DELETE", "/v1/overrides?namespace=web&limit=a&key=t1", "", 200, `{"deleted":1}`, ""},
		{"DELETE", "/v1/overrides?namespace=web", "", 400, `"detail":"limit: is empty`, ""},
		{"POST", "/v1/overrides:delete", `{"keys":[{"namespace":"web","limit":"a","key":"t/2"},{"namespace":"web","limit":"a","key":"t9"}]}`, 200, `{"deleted":1}`, ""},
		{"POST", "/v1/overrides:delete", `{"keys":[{"namespace":"web","limit":"a/b"}]}`, 400, "keys[0].limit:", ""},
		{"POST", "/v1/overrides:delete", `{}`, 400, "keys: 0 keys; must be 1 to 1000", ""},
	})
	n.SetErr = apitest.NoLeader{}
	walk(t, n, []step{{"PUT", "/v1/overrides", set(`"limit":"a","key":"k","burst":1`), 503, "no leader", "Retry-After: 1"}})
}

// TestOverrideOfLongAgo checks that an expiry is over whose nanoseconds are those of a later time.
func TestOverrideOfLongAgo(t *testing.T) {
	_, err := api.New(apitest.New(t), api.Options{}).Overrides.SetOverrides(t.Context(), &quoratev1.SetOverridesRequest{Overrides: []*quoratev1.Override{
		{Namespace: "web", Limit: "login", Key: "k", Class: quoratev1.Class_CLASS_BANNED, Expires: timestamppb.New(time.Date(1000, 1, 1, 0, 0, 0, 0, time.UTC))},
	}})
	if err == nil || !strings.Contains(err.Error(), "1000-01-01T00:00:00Z has passed; must be in the future") {
		t.Errorf("%v", err)
	}
}

func TestKeys(t *testing.T) {
	n := apitest.New(t)
	walk(t, n, []step{
		{"GET", "/v1/keys?namespace=web&limit=login&key=k", "", 200, `{"counters":[{"namespace":"web","limit":"login","key":"k"`, ""},
		{"GET", "/v1/keys?namespace=web&limit=login", "", 200, `"key":"*"`, ""},
		{"GET", "/v1/keys?namespace=web&limit=login", "", 200, `"rule":{"namespace":"web","name":"login","rate":"9/m","burst":9,"ceiling":"hard","kind":"bucket"`, ""},
		{"GET", "/v1/rates", "", 200, `"rule":{"namespace":"web","name":"per_client","rate":"10/s","burst":20,"ceiling":"soft","kind":"bucket"`, ""},
		{"GET", "/v1/keys?namespace=web&limit=none", "", 404, "unknown limit web/none", ""},
		{"GET", "/v1/keys?namespace=web", "", 400, "limit: is empty", ""},
		{"GET", "/v1/keys?namespace=web&limit=login&tier=2", "", 400, "tier: unknown query parameter; known: namespace, limit, key", ""},
		{"POST", "/v1/keys:reset", `{"namespace":"web","limit":"login","key":"k"}`, 200, "{}", ""},
		{"POST", "/v1/keys:reset", `{"namespace":"web","limit":"none"}`, 404, "unknown limit web/none", ""},
	})
	if len(n.Reset) != 1 || n.Reset[0] != (quota.Key{LimitName: quota.LimitName{Namespace: "web", Limit: "login"}, Key: "k"}) {
		t.Errorf("reset: %v", n.Reset)
	}
	n.RateErr = apitest.NoLeader{}
	walk(t, n, []step{
		{"GET", "/v1/keys?namespace=web&limit=login&key=k", "", 503, "no leader", ""},
		{"POST", "/v1/keys:reset", `{"namespace":"web","limit":"login","key":"k"}`, 503, "no leader", ""},
	})
}
