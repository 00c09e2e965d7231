package api

import (
	"net/http"

	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/api/auth"
)

var crossOrigin = http.NewCrossOriginProtection()

// fromHere refuses a control call that changes something and that a browser makes for a page of another site: it sends
// its reader's client certificate along, or is on a machine where nobody has to prove who they are. Programs are
// no browsers, and say nothing of origins. Checks are not looked at: proxies pass the headers of their clients on.
func fromHere(req *http.Request, rule auth.Rule) *fault {
	if !rule.Control && !rule.Audited || crossOrigin.Check(req) == nil {
		return nil
	}
	return &fault{
		code: codes.PermissionDenied, http: http.StatusForbidden, reason: "CROSS_ORIGIN",
		detail: "the call was made by a page of another site (headers Sec-Fetch-Site and Origin); make it from a program, or from the console's own pages",
	}
}
