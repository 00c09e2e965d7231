package rest

import (
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/api/auth"
)

var crossOrigin = http.NewCrossOriginProtection()

// fromHere refuses calls that a browser makes for a page of another site, if they change something: the browser would
// add its user's client certificate, or run where no authentication is needed. Other programs send no origin headers
// and pass. With authentication on, checks that are Proxied in the table of permissions are exempt; without it, the check for proxies has to
// come from a proxy.
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

// fromProxy reports whether a request has a header of proxies. A page cannot have a browser add one without asking
// the node first (CORS), which it answers to nobody.
func fromProxy(req *http.Request) bool {
	for name := range req.Header {
		if strings.HasPrefix(name, "X-Forwarded-") || strings.HasPrefix(name, "X-Original-") || name == "X-Real-Ip" {
			return true
		}
	}
	return false
}
