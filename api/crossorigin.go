package api

import (
	"net/http"

	"google.golang.org/grpc/codes"
)

var crossOrigin = http.NewCrossOriginProtection()

// passedOn lists the checks that proxies send with the headers of their clients.
var passedOn = map[string]bool{
	"/quorate.v1.QuotaService/Allow": true, "/quorate.v1.QuotaService/AllowBatch": true, "/quorate.v1.QuotaService/AllowAll": true,
	"/json": true, http.MethodGet + " " + forwardPath: true,
}

// fromHere refuses state-changing calls that a browser makes for a page of another site: the browser would add its
// user's client certificate, or run where no authentication is needed. Other programs send no origin headers and
// pass. With authentication on, the checks in passedOn are exempt.
func fromHere(req *http.Request, method string, guarded bool) *fault {
	if guarded && passedOn[method] || crossOrigin.Check(req) == nil {
		return nil
	}
	return &fault{
		code: codes.PermissionDenied, http: http.StatusForbidden, reason: "CROSS_ORIGIN",
		detail: "the call was made by a page of another site (headers Sec-Fetch-Site and Origin); make it from a program, or from the console's own pages",
	}
}
