package rest

import (
	"strings"
	"testing"

	"github.com/quorate/quorate/api/apitest"
)

// TestAuditEntries checks that an answer names the missing nodes, and the bounds of a request.
func TestAuditEntries(t *testing.T) {
	walk(t, apitest.New(t), []step{
		{"GET", "/v1/audit?text=web", "", 200, `"identity":"client:ci"`, ""},
		{"GET", "/v1/audit", "", 200, `"missing_nodes":[{"node":"n2","reason":"no answer"}]`, ""},
		{"GET", "/v1/audit?page_size=501", "", 400, "page_size: is 501; must be 1 to 500", ""},
		{"GET", "/v1/audit?result=good", "", 400, "must be one of ok, denied, failed", ""},
		{"GET", "/v1/audit?node=n9", "", 404, "unknown node", ""},
		{"GET", "/v1/audit?text=" + strings.Repeat("x", 257), "", 400, "text", ""},
		{"GET", "/v1/audit?methods=x" + strings.Repeat(",x", 64), "", 400, "methods: are 65; at most 64", ""},
		{"GET", "/v1/audit?since=x", "", 400, "since", ""},
	})
}
