package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

var proposed = regexp.MustCompile(`<datalist id="(\w+)">(.*?)</datalist>`)

// lists returns the names that the forms of a page propose.
func lists(body string) string {
	var out []string
	for _, m := range proposed.FindAllStringSubmatch(body, -1) {
		names := strings.NewReplacer(`<option value="`, "", `"></option>`, " ").Replace(m[2])
		out = append(out, strings.TrimSpace(m[1]+": "+names))
	}
	return strings.Join(out, "; ")
}

// TestNames checks that forms propose the requested names, each once; that a redrawn part of a page
// requests none; and that users who may not read names can still type them.
func TestNames(t *testing.T) {
	f := newFake()
	f.answer["HistoryLimits"] = func(_ context.Context, req any) (proto.Message, error) {
		out := &quoratev1.HistoryLimitsResponse{Limits: []*quoratev1.LimitUse{
			{Namespace: "web", Limit: "search"}, {Namespace: "mail", Limit: "out"}, {Namespace: "web", Limit: "login"}, {Namespace: accountNamespace, Limit: "pool"}, {Namespace: "mail", Limit: "login"},
		}}
		if top := req.(*quoratev1.HistoryLimitsRequest).Top; top != namesMost {
			return nil, fmt.Errorf("asked for %d", top)
		}
		return out, nil
	}
	c := New(Deps{Conn: f, Self: "n1"})
	for path, want := range map[string]string{
		"/console/key":                  "namespaces: mail web; limits: login out search",
		"/console/key?namespace=web":    "namespaces: mail web; limits: login search",
		"/console/events?namespace=no":  "namespaces: mail web; limits:",
		"/console/events?namespace=web": "namespaces: mail web; limits: login search",
	} {
		if _, body := get(c, path); lists(body) != want {
			t.Errorf("%s: %s; want %s", path, lists(body), want)
		}
	}
	f.answer["HistoryLimits"] = func(context.Context, any) (proto.Message, error) { return nil, errors.New("not for you") }
	if res, body := get(c, "/console/key"); res.StatusCode != http.StatusOK || lists(body) != "namespaces:; limits:" || strings.Contains(body, "not for you") {
		t.Errorf("without a right: %d, %s", res.StatusCode, lists(body))
	}
	c.Close() // after the first round
	before := f.calls["HistoryLimits"]
	if _, body := get(c, "/console/live/key?namespace=web&limit=login&key=k"); f.calls["HistoryLimits"] != before {
		t.Errorf("a live part asks for names: %s", body)
	}
}
