package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// limitsFake is a node with a limit file. It calls a file valid unless faults is set, and records in
// applied the requests to apply one.
type limitsFake struct {
	*fakeConn
	version uint64
	file    string
	limits  []*quoratev1.Limit
	faults  string
	changes []*quoratev1.LimitChange
	applied []*quoratev1.ApplyLimitsRequest
}

func newLimitsFake() *limitsFake {
	f := &limitsFake{fakeConn: newFake(), version: 7, file: sampleFile}
	f.limits = []*quoratev1.Limit{
		{Namespace: "api", Name: "tenant", Rate: "1000/s", Burst: 2000, Kind: quoratev1.Kind_KIND_BUCKET, Ceiling: quoratev1.Ceiling_CEILING_SOFT, Fraction: 1},
		{Namespace: "web", Name: "login", Rate: "5/m", Burst: 5, Kind: quoratev1.Kind_KIND_BUCKET, Ceiling: quoratev1.Ceiling_CEILING_HARD, Enforcement: quoratev1.Enforcement_ENFORCEMENT_SHADOW},
	}
	f.changes = []*quoratev1.LimitChange{{Namespace: "web", Limit: "login", Kind: quoratev1.ChangeKind_CHANGE_KIND_CHANGED, Fields: []*quoratev1.FieldChange{{Field: "burst", Before: "5", After: "9"}}}}
	on := func(name string, h func(req any) (proto.Message, error)) {
		f.answer[name] = func(_ context.Context, req any) (proto.Message, error) { return h(req) }
	}
	on("GetLimits", func(any) (proto.Message, error) {
		return &quoratev1.GetLimitsResponse{Version: f.version, Limits: f.limits, Yaml: f.file}, nil
	})
	on("ValidateLimits", func(any) (proto.Message, error) {
		return &quoratev1.ValidateLimitsResponse{Valid: f.faults == "", Faults: f.faults, Findings: []string{evil}}, nil
	})
	on("DiffLimits", func(any) (proto.Message, error) { return &quoratev1.DiffLimitsResponse{Changes: f.changes}, nil })
	on("ListVersions", func(any) (proto.Message, error) {
		return &quoratev1.ListVersionsResponse{Versions: []*quoratev1.LimitVersion{{Version: f.version, Author: evil, Comment: evil}, {Version: f.version - 1, Author: "ann"}}}, nil
	})
	on("ApplyLimits", func(req any) (proto.Message, error) {
		a := req.(*quoratev1.ApplyLimitsRequest)
		if a.GetExpectedVersion() != f.version {
			return nil, status.Error(codes.Aborted, "another version is in force")
		}
		f.applied = append(f.applied, proto.Clone(a).(*quoratev1.ApplyLimitsRequest))
		f.version++
		return &quoratev1.ApplyLimitsResponse{Version: f.version, Changed: true}, nil
	})
	return f
}

func TestLimitsList(t *testing.T) {
	f := newLimitsFake()
	c := New(Deps{Conn: f})
	for query, want := range map[string][]string{
		"":                           {"1000/s, burst 2,000", "shadow", "hard", "1 to 2 of 2"},
		"?q=LOG":                     {"web/", "1 to 1 of 1 found, 2 in all"},
		"?namespace=api":             {"tenant", "1 to 1 of 1 found"},
		"?q=nowhere":                 {"No limit matches"},
		"?page=99999999999999999999": {"1 to 2 of 2"},
	} {
		res, body := get(c, "/console/limits"+query)
		for _, w := range want {
			if res.StatusCode != http.StatusOK || !strings.Contains(body, w) {
				t.Errorf("%q: %d, no %q in\n%s", query, res.StatusCode, w, body)
			}
		}
	}
}

// TestManyLimits checks that a page of 100,000 limits shows 50 of them and loads at once.
func TestManyLimits(t *testing.T) {
	f := newLimitsFake()
	f.limits = nil
	for i := range 100_000 {
		f.limits = append(f.limits, &quoratev1.Limit{Namespace: fmt.Sprintf("ns%03d", i/200), Name: fmt.Sprintf("l%06d", i), Rate: "1/s", Burst: 1})
	}
	all := &quoratev1.GetLimitsResponse{Limits: f.limits}
	l := &limitsList{Search: "l0999"}
	began := time.Now()
	l.namespaces(all.Limits)
	found := l.matching(all.Limits)
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
	if len(found) != 100 || len(l.Namespaces) != 500 || l.More != 0 {
		t.Errorf("%d limits, %d namespaces and %d more", len(found), len(l.Namespaces), l.More)
	}
	res, body := get(New(Deps{Conn: f}), "/console/limits?page=3")
	if n := strings.Count(body, "<tr>"); res.StatusCode != http.StatusOK || n != limitsOnPage+1 || !strings.Contains(body, "151 to 200 of 100,000") {
		t.Errorf("%d, %d rows", res.StatusCode, n)
	}
}

const newLogin = "login: {rate: 5/m, burst: 9, ceiling: hard}\n"

func editForm(more ...string) url.Values {
	form := url.Values{"namespace": {"web"}, "limit": {"login"}, "base": {"7"}, "yaml": {newLogin}}
	for i := 0; i < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	return form
}

// fieldOf returns the value of a form field in a page.
func fieldOf(t *testing.T, body, name string) string {
	t.Helper()
	_, rest, ok := strings.Cut(body, `name="`+name+`" value="`)
	if !ok {
		t.Fatalf("no field %s in\n%s", name, body)
	}
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// TestEdit checks that faults appear at their lines, that the page shows changes before it applies
// them, and that it applies only what it showed, to the version for which it showed it.
func TestEdit(t *testing.T) {
	f := newLimitsFake()
	c := New(Deps{Conn: f})
	if _, body := get(c, "/console/edit?namespace=web&limit=login"); !strings.Contains(body, "login: {rate: 5/m, burst: 5, ceiling: hard}") || !strings.Contains(body, `name="base" value="7"`) {
		t.Errorf("%s", body)
	}
	f.faults = "limits:15:29: namespaces.web.limits.login.burst: is 0; must be 1 or more\n  15 |       login: {rate\n     |    ^\nlimits:2:1: x: is wrong"
	res, body := do(c, post("/console/edit/apply", editForm()))
	if res.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(body, "line 1, column 23: namespaces.web.limits.login.burst: is 0") || !strings.Contains(body, "elsewhere, line 2") || !strings.Contains(body, "burst: 9") {
		t.Errorf("%d\n%s", res.StatusCode, body)
	}
	if _, body := do(c, post("/console/data/edit/check", editForm())); !strings.Contains(body, `{"line":1,"column":23,"text":"namespaces.web.limits.login.burst: is 0; must be 1 or more"}`) {
		t.Error(body)
	}
	f.faults = ""
	res, body = do(c, post("/console/edit/apply", editForm()))
	for _, want := range []string{"Apply these changes?", "- login: {rate: 5/m, burst: 5", "&#43; login: {rate: 5/m, burst: 9", "Limits: 1 changed."} {
		if res.StatusCode != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%d, no %q in\n%s", res.StatusCode, want, body)
		}
	}
	once, seen := fieldOf(t, body, "once"), fieldOf(t, body, "seen")
	if res, body := do(c, post("/console/edit/apply", editForm("once", once, "seen", seen, "yaml", newLogin+"other: {}\n"))); res.StatusCode != http.StatusConflict || !strings.Contains(body, "review the difference first") {
		t.Errorf("%d\n%s", res.StatusCode, body)
	}
	res, body = do(c, post("/console/edit/apply", editForm("once", once, "seen", seen, "comment", "more of it")))
	if res.StatusCode != http.StatusOK || !strings.Contains(body, "Version 8 of the limits") || len(f.applied) != 1 {
		t.Fatalf("%d\n%s", res.StatusCode, body)
	}
	if a := f.applied[0]; a.Comment != "more of it" || a.GetExpectedVersion() != 7 || a.Yaml != strings.Replace(sampleFile, "burst: 5,", "burst: 9,", 1) {
		t.Errorf("%v", a)
	}
	do(c, post("/console/edit/apply", editForm("once", once, "seen", seen)))
	if len(f.applied) != 1 {
		t.Error("applied twice")
	}
}

// TestEditConflict checks that a conflict shows what others have changed, and keeps the text.
func TestEditConflict(t *testing.T) {
	f := newLimitsFake()
	c := New(Deps{Conn: f})
	_, body := do(c, post("/console/edit/apply", editForm()))
	once, seen := fieldOf(t, body, "once"), fieldOf(t, body, "seen")
	f.version = 9 // another user's change
	res, body := do(c, post("/console/edit/apply", editForm("once", once, "seen", seen)))
	for _, want := range []string{"Somebody changed the same limits", "You edited version 7; version 9 by", "They changed web/login: burst 5 → 9", "over version 9"} {
		if res.StatusCode != http.StatusConflict || !strings.Contains(body, want) {
			t.Errorf("%d, no %q in\n%s", res.StatusCode, want, body)
		}
	}
	if strings.Contains(body, evil) || !strings.Contains(body, "burst: 9") {
		t.Error(body)
	}
	res, body = do(c, post("/console/edit/apply", editForm("once", fieldOf(t, body, "once"), "seen", fieldOf(t, body, "seen"))))
	if res.StatusCode != http.StatusOK || len(f.applied) != 1 || f.applied[0].GetExpectedVersion() != 9 {
		t.Errorf("%d %v\n%s", res.StatusCode, f.applied, body)
	}
}

// TestEditNames checks which names of namespaces and limits the editor accepts.
func TestEditNames(t *testing.T) {
	c := New(Deps{Conn: newLimitsFake()})
	for query, want := range map[string]int{
		"namespace=web&limit=new": 200, "namespace=web&limit=@default": 200, "namespace=@global&limit=@default": 200, "namespace=new": 200, "": 200,
		"limit=x": 400, "namespace=a%20b": 400, "namespace=web&limit=a%0ab": 400, "namespace=@other&limit=x": 400,
	} {
		if res, body := get(c, "/console/edit?"+query); res.StatusCode != want {
			t.Errorf("%s: %d; want %d\n%s", query, res.StatusCode, want, body)
		}
	}
}

// TestVersions checks the list of versions, and that a rollback applies only after confirmation
// and to the version that the page showed.
func TestVersions(t *testing.T) {
	f := newLimitsFake()
	f.answer["RollbackLimits"] = func(_ context.Context, req any) (proto.Message, error) {
		r := req.(*quoratev1.RollbackLimitsRequest)
		if r.Version != 6 || r.GetExpectedVersion() != 7 || r.Comment != "it was too much" {
			t.Errorf("%v", r)
		}
		return &quoratev1.RollbackLimitsResponse{Version: 8, Changed: true}, nil
	}
	c := New(Deps{Conn: f})
	if _, body := get(c, "/console/versions"); !strings.Contains(body, "active") || !strings.Contains(body, "ann") || strings.Contains(body, evil) {
		t.Error(body)
	}
	if _, body := get(c, "/console/versions?version=7"); !strings.Contains(body, "burst: 9") {
		t.Error(body)
	}
	if res, _ := get(c, "/console/versions?version=12"); res.StatusCode != http.StatusNotFound {
		t.Error(res.StatusCode)
	}
	form := url.Values{"version": {"6"}}
	_, body := do(c, post("/console/versions/rollback", form))
	if !strings.Contains(body, "Roll back to version 6") || !strings.Contains(body, "web/login") {
		t.Error(body)
	}
	form.Set("once", fieldOf(t, body, "once"))
	form.Set("current", fieldOf(t, body, "current"))
	form.Set("comment", "it was too much")
	if res, body := do(c, post("/console/versions/rollback", form)); res.StatusCode != http.StatusOK || !strings.Contains(body, "Version 8") {
		t.Errorf("%d %s", res.StatusCode, body)
	}
}

// TestWithEnforcement checks that the switch changes only that field, in both forms of a limit.
func TestWithEnforcement(t *testing.T) {
	const long = "search:\n  tiers:\n    - {limit: 10, per: 1s}\n  enforcement:\n    mode: shadow\n  near: 90%\n"
	for _, tc := range []struct{ text, to, want string }{
		{newLogin, "shadow", "login: {rate: 5/m, burst: 9, ceiling: hard, enforcement: shadow}\n"},
		{"a: {rate: 1/s, enforcement: shadow}\n", "enforce", "a: {rate: 1/s}\n"},
		{"a: {rate: 1/s, enforcement: {mode: enforce, fraction: 25%}, near: 90%}\n", "off", "a: {rate: 1/s, near: 90%, enforcement: off}\n"},
		{long, "enforce", "search:\n  tiers:\n    - {limit: 10, per: 1s}\n  near: 90%\n"},
		{long, "shadow", "search:\n  tiers:\n    - {limit: 10, per: 1s}\n  near: 90%\n  enforcement: shadow\n"},
	} {
		if got, ok := withEnforcement(tc.text, tc.to); !ok || got != tc.want {
			t.Errorf("%q to %s: %q", tc.text, tc.to, got)
		}
	}
	if _, ok := withEnforcement("", "shadow"); ok {
		t.Error("nothing can be switched")
	}
}

// TestSwitchEnforcement checks that a switch that would change anything else is refused.
func TestSwitchEnforcement(t *testing.T) {
	f := newLimitsFake()
	c := New(Deps{Conn: f})
	form := url.Values{"namespace": {"web"}, "limit": {"login"}, "to": {"shadow"}, "version": {"7"}}
	if res, body := do(c, post("/console/limits/enforcement", form)); res.StatusCode != http.StatusConflict || len(f.applied) != 0 {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	f.changes[0].Fields[0].Field = "enforcement"
	_, body := do(c, post("/console/limits/enforcement", form))
	form.Set("once", fieldOf(t, body, "once"))
	current := f.answer["GetLimits"]
	f.answer["GetLimits"] = func(context.Context, any) (proto.Message, error) { // this node has not applied yet what the page showed
		return &quoratev1.GetLimitsResponse{Version: 6, Limits: f.limits, Yaml: f.file}, nil
	}
	if res, body := do(c, post("/console/limits/enforcement", form)); res.StatusCode != http.StatusConflict || len(f.applied) != 0 {
		t.Errorf("at a late node: %d %s", res.StatusCode, body)
	}
	f.answer["GetLimits"] = current
	form.Del("once")
	_, body = do(c, post("/console/limits/enforcement", form))
	form.Set("once", fieldOf(t, body, "once"))
	if res, body := do(c, post("/console/limits/enforcement", form)); res.StatusCode != http.StatusOK || len(f.applied) != 1 || !strings.Contains(f.applied[0].Yaml, "ceiling: hard, enforcement: shadow}") {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	form.Set("to", "sometimes")
	form.Del("once")
	if res, _ := do(c, post("/console/limits/enforcement", form)); res.StatusCode != http.StatusBadRequest {
		t.Error(res.StatusCode)
	}
}

// TestTierText checks that the console describes how every kind counts, each with its own text, so
// that none passes for a bucket.
func TestTierText(t *testing.T) {
	words := map[string]quoratev1.Kind{}
	for n := range len(quoratev1.Kind_name) - 1 {
		kind := quoratev1.Kind(n + 1)
		text := tierText(&quoratev1.Tier{Kind: kind, Rate: "10/m", Burst: 10, Calendar: "minute"})
		if other, ok := words[text]; ok {
			t.Errorf("%v and %v are both said as %q", other, kind, text)
		}
		words[text] = kind
	}
}
