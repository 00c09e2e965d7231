package console

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/quorate/quorate/internal/audit"
	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/rbac"
)

func auditPage() Page {
	return Page{Path: "audit", Title: "Audit log", Group: "Access", Template: "audit", Need: rbac.AccessRead, Load: loadAudit}
}

// auditRows is the number of entries on a page.
const auditRows = 50

type auditView struct {
	Node               string
	Who, Method, Text  string
	Result             string
	Results            []Option
	Entries            []audit.Entry
	Pager              Pager
	Incomplete, Absent bool
}

// loadAudit reads this node's audit log. Because it shows what others did, it requires the
// permission to read all bindings and tokens.
func loadAudit(r *Request) (any, error) {
	v := &auditView{
		Node: r.c.Self, Who: r.Query("who"), Method: r.Query("method"), Text: r.Query("text"), Result: r.Query("result"),
		Results: []Option{{"", "all"}, {"ok", "done"}, {"denied", "denied"}, {"failed", "failed"}},
	}
	if r.c.Guard != nil {
		if err := r.c.Guard.Check(r.Caller, rbac.AccessRead, rbac.Everywhere, "the audit log"); err != nil {
			return nil, &Problem{Status: http.StatusForbidden, Title: "You may not", Detail: err.Error()}
		}
	}
	if r.c.AuditPath == "" {
		v.Absent = true
		return v, nil
	}
	from, err := cursorOf(r.Query("from"))
	if err != nil {
		return nil, err
	}
	entries, next, err := audit.NewestOfAll(r.c.AuditPath, from, auditRows, v.match)
	if err != nil {
		return nil, &Problem{Status: http.StatusInternalServerError, Title: "The audit log cannot be read", Detail: "The node's log says why."}
	}
	v.Entries = entries
	v.Pager = Pager{Label: "Pages of the audit log", What: phrase.Plural(len(entries), "entry")}
	if len(entries) != 1 {
		v.Pager.What = strconv.Itoa(len(entries)) + " entries"
	}
	v.Incomplete = next != nil && len(entries) < auditRows
	at := func(place string) string {
		to, _ := link("audit", "who", v.Who, "method", v.Method, "text", v.Text, "result", v.Result, "from", place)
		return to
	}
	if next != nil {
		v.Pager.Next = at(cursorText(*next))
	}
	if r.Query("from") != "" {
		v.Pager.Prev = at("")
	}
	return v, nil
}

// cursorText formats a cursor for cursorOf: one place in the changes and one in the attempts, such
// as 0.4711-1.22; x means that the chain has no older entries.
func cursorText(c audit.Cursor) string {
	one := func(p *audit.Place) string {
		if p == nil {
			return "x"
		}
		return fmt.Sprintf("%d.%d", p.File, p.Before)
	}
	return one(c.Done) + "-" + one(c.Attempts)
}

func cursorOf(text string) (audit.Cursor, error) {
	if text == "" {
		return audit.Start(), nil
	}
	done, attempts, ok := strings.Cut(text, "-")
	d, err1 := placeOf(done)
	a, err2 := placeOf(attempts)
	if !ok || err1 != nil || err2 != nil || d == nil && a == nil {
		return audit.Cursor{}, &Problem{Status: http.StatusBadRequest, Title: "That is not right", Detail: "from is " + strconv.Quote(phrase.Clip(text, 40)) + "; must be a place in the log, such as 0.4711-1.22."}
	}
	return audit.Cursor{Done: d, Attempts: a}, nil
}

func placeOf(text string) (*audit.Place, error) {
	if text == "x" {
		return nil, nil //nolint:nilnil // nothing is older
	}
	file, before, _ := strings.Cut(text, ".")
	n, err1 := strconv.ParseUint(file, 10, 8)
	b, err2 := strconv.ParseUint(before, 10, 63)
	return &audit.Place{File: int(n), Before: int64(b)}, errors.Join(err1, err2)
}

func (v *auditView) match(e *audit.Entry) bool {
	has := func(in, what string) bool { return strings.Contains(strings.ToLower(in), strings.ToLower(what)) }
	return has(e.Identity, v.Who) && (has(e.Method, v.Method) || has(callText(e.Method), v.Method)) && (v.Result == "" || string(e.Result) == v.Result) &&
		(v.Text == "" || has(e.What, v.Text) || has(e.Answer, v.Text) || has(e.Detail, v.Text) || has(e.RequestID, v.Text) || has(e.Address, v.Text))
}

// auditState returns the badge of a call's result.
func auditState(e audit.Entry) Badge {
	switch e.Result {
	case audit.OK:
		return Badge{"good", "done"}
	case audit.Denied:
		return Badge{"bad", "denied"}
	}
	return Badge{"warn", "failed"}
}
