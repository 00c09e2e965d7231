package console

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/rbac"
)

// maxEdited bounds the text of a section that can be edited in a browser; larger ones are changed
// with files.
const maxEdited = 256 << 10

// editor is the data of the page that edits a section.
type editor struct {
	Namespace, Limit string
	Version          uint64
	Text             string
	New, TooLarge    bool
	MayWrite         bool
	Size             int
}

// Title names the section.
func (e *editor) Title() string {
	switch {
	case e.Limit != "" && e.New:
		return "New limit " + e.Namespace + "/" + e.Limit
	case e.Limit != "":
		return "Edit " + limitTitle(e.Namespace, e.Limit)
	case e.Namespace != "":
		return "Edit the namespace " + e.Namespace
	}
	return "Edit all limits"
}

// goodName matches valid names of namespaces and limits.
var goodName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,128}$`)

// named validates the names of a section.
func named(namespace, limit string) error {
	switch {
	case namespace == "" && limit != "":
		return &Problem{Status: http.StatusBadRequest, Title: "Which namespace?", Detail: "Fill in the namespace too.", Field: "namespace"}
	case namespace == globalNamespace && limit == defaultLimit, namespace == "":
		return nil
	case !goodName.MatchString(namespace):
		return &Problem{Status: http.StatusBadRequest, Title: "Invalid name", Detail: fmt.Sprintf("The namespace %q must be 1 to 128 of a-z A-Z 0-9 . _ -", phrase.Clip(namespace, 60)), Field: "namespace"}
	case limit != "" && limit != defaultLimit && limit != templateLimit && !goodName.MatchString(limit):
		return &Problem{Status: http.StatusBadRequest, Title: "Invalid name", Detail: fmt.Sprintf("The limit %q must be 1 to 128 of a-z A-Z 0-9 . _ -", phrase.Clip(limit, 60)), Field: "limit"}
	}
	return nil
}

func loadEdit(r *Request) (any, error) {
	e := &editor{Namespace: r.Query("namespace"), Limit: r.Query("limit"), MayWrite: r.May(rbac.LimitsWrite)}
	if err := named(e.Namespace, e.Limit); err != nil {
		return nil, err
	}
	res, err := r.Limits.GetLimits(r.Context(), &quoratev1.GetLimitsRequest{File: true})
	if err != nil {
		return nil, err
	}
	s := cut(res.Yaml, e.Namespace, e.Limit)
	e.Version, e.Text, e.New = res.Version, s.text(), s.empty()
	if e.New {
		e.Text = startOf(e.Namespace, e.Limit)
	}
	if e.Size = len(e.Text); e.Size > maxEdited {
		e.TooLarge, e.Text = true, ""
	}
	return e, nil
}

// startOf returns the initial text of a new limit.
func startOf(namespace, limit string) string {
	const rule = ": {rate: 10/s, burst: 20, ceiling: soft}\n"
	switch {
	case namespace == globalNamespace:
		return "global_default" + rule
	case limit == "":
		return quoteName(namespace) + ":\n  limits:\n    per_client" + rule
	case limit == defaultLimit || limit == templateLimit:
		return limit[1:] + rule
	}
	return quoteName(limit) + rule
}

// proposal is a new text of a section.
type proposal struct {
	namespace, limit, text string
	base                   uint64 // version that the text started from
	version                uint64 // current version when it was checked
	section                section
	file                   string
	faults                 []lineFault
	findings               []string
	changes                []*quoratev1.LimitChange
	theirs                 []*quoratev1.LimitChange // since base, in the same section
}

// lineFault is one error in the text. Line 0 is elsewhere in the file.
type lineFault struct {
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Text   string `json:"text"`
}

func (f lineFault) String() string {
	if f.Line == 0 {
		return f.Text
	}
	return fmt.Sprintf("line %d, column %d: %s", f.Line, f.Column, f.Text)
}

// editSource is the node's name for the text in errors.
const editSource = "limits"

var faultAt = regexp.MustCompile(`^` + editSource + `(?::(\d+):(\d+))?: (.*)$`)

// newProposal reads a form and has the node check its text. It changes nothing.
func newProposal(r *Request) (*proposal, error) {
	p := &proposal{namespace: r.PostForm.Get("namespace"), limit: r.PostForm.Get("limit"), text: r.PostForm.Get("yaml")}
	if err := named(p.namespace, p.limit); err != nil {
		return nil, err
	}
	res, err := r.Limits.GetLimits(r.Context(), &quoratev1.GetLimitsRequest{File: true})
	if err != nil {
		return nil, err
	}
	p.version, p.base = res.Version, res.Version
	if base := formVersion(r, "base"); base != nil {
		p.base = *base
	}
	p.section = cut(res.Yaml, p.namespace, p.limit)
	p.file = p.section.with(p.text)
	part, from := p.section, (*quoratev1.LimitSet)(nil)
	if around := near(res.Yaml, p.namespace, p.limit, p.text); len(around) < len(res.Yaml) {
		part, from = cut(around, p.namespace, p.limit), &quoratev1.LimitSet{Yaml: around, Source: editSource}
	}
	file := part.with(p.text)
	valid, err := r.Limits.ValidateLimits(r.Context(), &quoratev1.ValidateLimitsRequest{Yaml: file, Source: editSource})
	if err != nil {
		return nil, err
	}
	if !valid.Valid {
		p.faults = p.place(valid.Faults, &part)
		return p, nil
	}
	p.findings = valid.Findings
	diff, err := r.Limits.DiffLimits(r.Context(), &quoratev1.DiffLimitsRequest{From: from, To: &quoratev1.LimitSet{Yaml: file, Source: editSource}})
	if err != nil {
		return nil, err
	}
	p.changes = diff.Changes
	err = p.others(r)
	return p, err
}

// place maps errors to lines of the edited text.
func (p *proposal) place(text string, in *section) []lineFault {
	var out []lineFault
	for line := range strings.SplitSeq(text, "\n") {
		m := faultAt.FindStringSubmatch(line)
		if m == nil {
			continue // an excerpt
		}
		f := lineFault{Text: m[3]}
		if m[1] != "" {
			at, _ := strconv.Atoi(m[1])
			column, _ := strconv.Atoi(m[2])
			here, ok := in.line(at, p.text)
			if ok {
				f.Line, f.Column = here, max(1, column-in.indent)
			} else {
				f.Text = "elsewhere: " + m[3]
				if len(in.file) == len(p.section.file) { // else it is a part, whose lines nobody sees
					f.Text = fmt.Sprintf("elsewhere, line %d of the file: %s", at, m[3])
				}
			}
		}
		out = append(out, f)
	}
	return out
}

// others determines what was changed in the same section since base.
func (p *proposal) others(r *Request) error {
	if p.base >= p.version {
		return nil
	}
	diff, err := r.Limits.DiffLimits(r.Context(), &quoratev1.DiffLimitsRequest{From: &quoratev1.LimitSet{Version: &p.base}})
	if err != nil {
		return err
	}
	for _, c := range diff.Changes {
		if (p.namespace == "" || c.Namespace == p.namespace) && (p.limit == "" || c.Limit == p.limit) {
			p.theirs = append(p.theirs, c)
		}
	}
	return nil
}

// seen identifies the checked text and version, so that nothing else is applied.
func (p *proposal) seen() string {
	sum := sha256.Sum256([]byte(strconv.FormatUint(p.version, 10) + "\x00" + p.text))
	return hex.EncodeToString(sum[:12])
}

// checkEdit returns the errors in a text while it is edited.
func checkEdit(r *Request) (any, error) {
	if err := r.ParseForm(); err != nil {
		return nil, unread(err, "The text is larger than 5 MiB.")
	}
	p, err := newProposal(r)
	if err != nil {
		return nil, err
	}
	return map[string]any{"faults": p.faults, "findings": p.findings, "changes": changesText(p.changes)}, nil
}

// applyEdit shows what a text would change, and applies it.
var applyEdit = Action{Confirm: confirmEdit, Do: doEdit}

func confirmEdit(r *Request) (*Confirmation, error) {
	p, err := newProposal(r)
	if err != nil {
		return nil, err
	}
	hidden := Hidden(r, "namespace", "limit", "base")
	if len(p.faults) > 0 {
		return p.faulty(r, hidden)
	}
	c := &Confirmation{
		Title: "Apply these changes?", Button: "Apply", Diff: Lines(p.section.text(), p.text),
		Fields: append(append(hidden, Hidden(r, "yaml")...), Field{Name: "seen", Type: "hidden", Value: p.seen()}, Field{Name: "version", Type: "hidden", Value: strconv.FormatUint(p.version, 10)}, commentField(r)),
		Will:   []string{changesText(p.changes) + " No bucket is refilled."},
	}
	for _, change := range p.changes {
		if change.Kind == quoratev1.ChangeKind_CHANGE_KIND_REMOVED {
			c.Danger = true
			c.Will = append(c.Will, change.Namespace+"/"+change.Limit+" is removed.")
		}
	}
	for _, f := range p.findings {
		c.Will = append(c.Will, "Probably a mistake: "+f)
	}
	if len(p.theirs) > 0 {
		c.conflict(r, p)
	}
	return c, nil
}

// faulty shows the text again with its errors.
func (p *proposal) faulty(r *Request, hidden []Field) (*Confirmation, error) {
	var lines []string
	for _, f := range p.faults {
		lines = append(lines, f.String())
	}
	c := &Confirmation{
		Title: "Limits with errors", Button: "Check again", Will: lines,
		Fields: append(hidden, Field{Name: "yaml", Label: "Limits, YAML", Type: "textarea", Value: p.text, Required: true, Error: lines[0]}, commentField(r)),
	}
	return c, &Problem{Status: http.StatusUnprocessableEntity, Title: "The limits have errors and were not applied", Detail: "The errors are listed here.", Field: "-"}
}

// conflict describes what others have changed since base.
func (c *Confirmation) conflict(r *Request, p *proposal) {
	by := ""
	if v, err := r.Limits.ListVersions(r.Context(), &quoratev1.ListVersionsRequest{Max: 1}); err == nil && len(v.Versions) > 0 {
		by = " by " + cmp.Or(v.Versions[0].Author, "somebody")
		if v.Versions[0].Comment != "" {
			by += " (" + v.Versions[0].Comment + ")"
		}
	}
	c.Title, c.Danger, c.Button = "Somebody changed the same limits", true, "Apply mine over version "+strconv.FormatUint(p.version, 10)
	c.Will = append([]string{fmt.Sprintf("You edited version %d; version %d%s is active now. Your text is kept; the lines below show how it changes theirs.", p.base, p.version, by)}, c.Will...)
	for i, t := range p.theirs {
		if i == 10 {
			c.Will = append(c.Will, fmt.Sprintf("They changed %d more limits.", len(p.theirs)-i))
			break
		}
		c.Will = append(c.Will, "They changed "+t.Namespace+"/"+t.Limit+": "+fieldsText(t))
	}
}

func fieldsText(c *quoratev1.LimitChange) string {
	var parts []string
	for _, f := range c.Fields {
		parts = append(parts, fmt.Sprintf("%s %s → %s", f.Field, orNone(f.Before), orNone(f.After)))
	}
	if len(parts) == 0 {
		return enumText(c.Kind.String(), "CHANGE_KIND_")
	}
	return phrase.Clip(strings.Join(parts, ", "), 300)
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func doEdit(r *Request) (*Result, error) {
	p, err := newProposal(r)
	if err != nil {
		return nil, err
	}
	if len(p.faults) > 0 {
		return nil, &Problem{Status: http.StatusUnprocessableEntity, Title: "The limits have errors and were not applied", Detail: p.faults[0].String()}
	}
	if r.PostForm.Get("seen") != p.seen() {
		return nil, &Problem{Status: http.StatusConflict, Title: "Not applied yet", Detail: "The text or the active limits have changed: review the difference first."}
	}
	res, err := r.Limits.ApplyLimits(r.Context(), &quoratev1.ApplyLimitsRequest{Yaml: p.file, Source: "console", ExpectedVersion: &p.version, Comment: r.PostForm.Get("comment")})
	if err != nil {
		return nil, err
	}
	return applied("Limits applied", res.Version, res.Changed, "versions"), nil
}
