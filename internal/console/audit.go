package console

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/quorate/quorate/api/apijson"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/audit"
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
		Node: v.Node, Identity: v.Who, Methods: callsOf(v.Method), Text: v.Text, Result: v.Result, PageSize: auditRows, PageToken: r.Query("from"),
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

// callsOf returns the filter of methods for a text: the text itself, and the calls whose description
// contains it.
func callsOf(text string) []string {
	if text == "" {
		return nil
	}
	out := []string{text}
	for name, words := range callWords {
		if strings.Contains(strings.ToLower(words), strings.ToLower(text)) {
			out = append(out, name)
		}
	}
	slices.Sort(out[1:])
	return out[:min(len(out), auditMethods)]
}

// donePast has the past tense of the verbs with which descriptions of changes begin. TestAuditSentence
// compares it with api/auth.
var donePast = map[string]string{
	"Activate": "activated", "Change": "changed", "Clear": "cleared", "Delete": "deleted", "Drain": "drained", "Grant": "granted", "Issue": "issued", "Let": "let", "Load": "loaded", "Create": "created",
	"Remove": "removed", "Reset": "reset", "Revoke": "revoked", "Roll": "rolled", "Rotate": "rotated", "Set": "set", "Sign": "signed", "Take": "took", "Transfer": "transferred",
	"Use": "used",
}

// auditSentence says what a caller did, or tried to do, and to what if the entry has it.
func auditSentence(e *quoratev1.AuditEntry) string {
	name, words := callName(e.GetMethod()), callText(e.GetMethod())
	if name == "ClusterService/ChangeNode" {
		words = "Change the state of a node"
	}
	words = cmp.Or(auditWords(name, auditFieldsOf(e.GetWhat())), words)
	verb, rest, _ := strings.Cut(words, " ")
	past := donePast[verb]
	switch done := e.GetResult() == string(audit.OK); {
	case done && strings.Contains(e.GetWhat(), "dry_run=true"):
		return "would have " + past + " " + rest + " (dry run)"
	case done && past != "":
		return past + " " + rest
	case done:
		return "called " + name
	case words == name: // it has no description
		return "tried to call " + name
	}
	return "tried to " + strings.ToLower(verb) + " " + rest
}

// auditRest returns what the sentence of an entry leaves out and readers want: the comment, or the whole
// request if the sentence names nothing of it.
func auditRest(e *quoratev1.AuditEntry) string {
	f := auditFieldsOf(e.GetWhat())
	if auditWords(callName(e.GetMethod()), f) == "" {
		return auditDetails(e.GetWhat())
	}
	return f["comment"]
}

// listLength matches the number of items before a list in a summary.
var listLength = regexp.MustCompile(`^\(\d+\)\[`)

// auditDetails formats the summary of a request or an answer for people: name: value, name: value.
func auditDetails(summary string) string {
	summary = apijson.PlainEnums(summary)
	var b strings.Builder
	quoted, escaped := false, false
	depth, skip := 0, 0 // parentheses that are open, and the end of what is left out
	for i, c := range summary {
		if i < skip {
			continue
		}
		if n := len(listLength.FindString(summary[i:])); n > 0 && !quoted {
			b.WriteByte('[')
			skip = i + n
			continue
		}
		switch {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case !quoted && c == '=':
			b.WriteString(": ")
			continue
		case !quoted && c == '(':
			depth++
		case !quoted && c == ')':
			depth--
		case !quoted && c == ' ' && depth == 0 && !strings.HasSuffix(summary[:i], ","):
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	return b.String()
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
