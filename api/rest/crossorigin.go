package rest

import (
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/api/auth"
)

var crossOrigin = http.NewCrossOriginProtection()

// fromHere refuses calls that change something and that a browser makes for a page of another site:
// the browser would add its user's client certificate, or reach a node that requires no
// authentication. Other programs send no origin headers and pass. With authentication, the checks
// that the table of permissions marks Proxied are exempt; without authentication, the check for
// proxies must come from a proxy.
func fromHere(req *http.Request, method string, guarded bool) error {
	rule, _ := auth.RuleOf(method)
	switch {
	case guarded && rule.Proxied:
		return nil
	case !guarded && method == forwardRoute && fromOtherSite(req) && !fromProxy(req):
	case crossOrigin.Check(req) == nil:
		return nil
	}
	return &apierr.Error{
		Code: codes.PermissionDenied, HTTP: http.StatusForbidden, Reason: "CROSS_ORIGIN",
		Detail: "the call was made by a page of another site (headers Sec-Fetch-Site and Origin); make it from a program, or from the console's own pages",
	}
}

const forwardRoute = http.MethodGet + " " + forwardPath

// fromOtherSite reports whether a browser made a request for a page of another origin.
func fromOtherSite(req *http.Request) bool {
	site := req.Header.Get("Sec-Fetch-Site")
	return site == "cross-site" || site == "same-site"
}

// fromProxy reports whether a request has a header that proxies add. A page cannot make a browser
// add one without asking the node first (CORS), and the node answers no such request.
func fromProxy(req *http.Request) bool {
	for name := range req.Header {
		if strings.HasPrefix(name, "X-Forwarded-") || strings.HasPrefix(name, "X-Original-") || name == "X-Real-Ip" {
			return true
		}
	}
	return false
}
