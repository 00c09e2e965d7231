package console

import (
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/audit"
	"github.com/quorate/quorate/internal/audit/words"
	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/rbac"
)

func auditPage() Page {
	return Page{Path: "audit", Title: "Audit log", Group: "Access", Template: "audit", Need: rbac.AccessRead, Load: loadAudit}
}

// auditRows is the number of entries on a page, and auditMethods the most calls of a filter.
const (
	auditRows    = 50
	auditMethods = 64
)

type auditView struct {
	Node, Who, Method, Text string
	Result                  string
	Results                 []Option
	Entries                 []*quoratev1.AuditEntry
	Missing                 []*quoratev1.MissingNode
	Pager                   Pager
	Incomplete              bool
}

// loadAudit reads the audit logs of all nodes, the newest entries first.
func loadAudit(r *Request) (any, error) {
	v := &auditView{
		Node: r.Query("node"), Who: r.Query("who"), Method: r.Query("method"), Text: r.Query("text"), Result: r.Query("result"),
		Results: []Option{{"", "all"}, {"ok", "done"}, {"denied", "denied"}, {"failed", "failed"}},
	}
	res, err := r.Security.ListAuditEntries(r.Context(), &quoratev1.ListAuditEntriesRequest{
		Node: v.Node, Identity: v.Who, Methods: words.Matching(v.Method, auditMethods), Text: v.Text, Result: v.Result, PageSize: auditRows, PageToken: r.Query("from"),
	})
	if err != nil {
		return nil, err
	}
	v.Entries, v.Missing = res.Entries, res.MissingNodes
	v.Pager = Pager{Label: "Pages of the audit log", What: phrase.Plural(len(v.Entries), "entry")}
	v.Incomplete = res.NextPageToken != "" && len(v.Entries) < auditRows
	at := func(place string) string {
		to, _ := link("audit", "node", v.Node, "who", v.Who, "method", v.Method, "text", v.Text, "result", v.Result, "from", place)
		return to
	}
	if res.NextPageToken != "" {
		v.Pager.Next = at(res.NextPageToken)
	}
	if r.Query("from") != "" {
		v.Pager.Prev = at("")
	}
	return v, nil
}

// auditState returns the badge of a call's result.
func auditState(e *quoratev1.AuditEntry) Badge {
	switch e.GetResult() {
	case string(audit.OK):
		return Badge{"good", "done"}
	case string(audit.Denied):
		return Badge{"bad", "denied"}
	}
	return Badge{"warn", "failed"}
}
