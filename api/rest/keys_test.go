package rest

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
)

// TestKeysOfInlineLimits: a key of CL.THROTTLE can be read and reset under the name that TopRates returns; a name
// that no protocol makes is an error.
func TestKeysOfInlineLimits(t *testing.T) {
	s := newSecured(t, map[string]rbac.Binding{"operator": {Role: "operator", Scope: rbac.Everywhere}, "admin": {Role: "admin", Scope: rbac.Everywhere}})
	s.With(t, "web/a 1/s 1")
	h := s.handler()
	name := "@inline.bucket.soft.10.3600000000000.5.leader"
	ask := "/v1/keys?" + url.Values{"namespace": {"redis"}, "limit": {name}, "key": {"user:42"}}.Encode()
	if w := s.do(h, "operator", "GET", ask, ""); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), name) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := s.do(h, "admin", "POST", "/v1/keys:reset", `{"namespace":"redis","limit":"`+name+`","key":"user:42"}`); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if want := (quota.Key{LimitName: quota.LimitName{Namespace: "redis", Limit: name}, Key: "user:42"}); len(s.Reset) != 1 || s.Reset[0] != want {
		t.Errorf("reset are %v, want %v", s.Reset, want)
	}
	for _, wrong := range []string{"@inline.bucket.soft.10.3600000000000", "@inline.bucket.soft.010.3600000000000.5", "@other"} {
		q := url.Values{"namespace": {"redis"}, "limit": {wrong}, "key": {"k"}}.Encode()
		if w := s.do(h, "operator", "GET", "/v1/keys?"+q, ""); w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", wrong, w.Code, w.Body)
		}
	}
}
