package console

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// enforced matches the enforcement field of a limit file, as the API writes it.
var enforced = regexp.MustCompile(`(, )?enforcement: (\{[^}]*\}|[a-z]+)`)

// withEnforcement returns a limit's text with another enforcement; false if the text does not have
// a form that the API writes.
func withEnforcement(text, to string) (out string, ok bool) {
	lines := splitLines(text)
	if len(lines) == 0 {
		return "", false
	}
	if len(lines) == 1 { // name: {...}
		line := enforced.ReplaceAllString(lines[0], "")
		if !strings.HasSuffix(line, "}") {
			return "", false
		}
		if to != "enforce" {
			line = strings.TrimSuffix(line, "}") + ", enforcement: " + to + "}"
		}
		return line + "\n", true
	}
	var kept []string
	skip := false
	for i, l := range lines {
		key, field := keyAt(l, 2)
		if i > 0 && field {
			skip = key == "enforcement"
		}
		if !skip {
			kept = append(kept, l)
		}
	}
	if to != "enforce" {
		kept = append(kept, "  enforcement: "+to)
	}
	return strings.Join(kept, "\n") + "\n", true
}

// enforcementWords describes each enforcement to users.
var enforcementWords = map[string]string{
	"enforce": "Requests beyond the limit are refused from now on, for all keys.",
	"shadow":  "Requests are no longer refused. Those over the limit pass, and are counted and reported.",
	"off":     "Everything passes, and nothing is counted.",
}

// switchEnforcement changes the enforcement of a limit.
var switchEnforcement = Action{Confirm: confirmEnforcement, Do: func(r *Request) (*Result, error) {
	file, version, _, err := enforcementFile(r)
	if err != nil {
		return nil, err
	}
	res, err := r.Limits.ApplyLimits(r.Context(), &quoratev1.ApplyLimitsRequest{Yaml: file, Source: "console", ExpectedVersion: &version, Comment: r.PostForm.Get("comment")})
	if err != nil {
		return nil, err
	}
	next, err := link("limit", "namespace", r.PostForm.Get("namespace"), "limit", r.PostForm.Get("limit"))
	if err != nil {
		return nil, err
	}
	return applied("Enforcement switched", res.Version, res.Changed, strings.TrimPrefix(next, Root+"/")), nil
}}

func confirmEnforcement(r *Request) (*Confirmation, error) {
	to := r.PostForm.Get("to")
	_, _, s, err := enforcementFile(r)
	if err != nil {
		return nil, err
	}
	text, _ := withEnforcement(s.text(), to)
	return &Confirmation{
		Title: "Switch " + limitTitle(r.PostForm.Get("namespace"), r.PostForm.Get("limit")) + " to " + to + "?", Button: "Switch to " + to, Danger: to == "enforce",
		Will: []string{enforcementWords[to]}, Diff: Lines(s.text(), text), Fields: append(Hidden(r, "namespace", "limit", "to", "version"), commentField(r)),
	}, nil
}

// enforcementFile returns the limit file of this node with another enforcement, and its version, which must be
// that of the form. It verifies that nothing else changes.
func enforcementFile(r *Request) (file string, version uint64, s section, err error) {
	ns, limit, to := r.PostForm.Get("namespace"), r.PostForm.Get("limit"), r.PostForm.Get("to")
	if enforcementWords[to] == "" {
		return "", 0, s, &Problem{Status: http.StatusBadRequest, Title: "Invalid value", Detail: "Enforcement is enforce, shadow or off."}
	}
	if err := named(ns, limit); err != nil {
		return "", 0, s, err
	}
	res, err := r.Limits.GetLimits(r.Context(), &quoratev1.GetLimitsRequest{File: true})
	if err != nil {
		return "", 0, s, err
	}
	if v := formVersion(r, "version"); v == nil || *v != res.Version {
		return "", 0, s, &Problem{
			Status: http.StatusConflict, Title: "Not applied", Detail: fmt.Sprintf("The form is not of version %d, which is active at this node.", res.Version),
			Advice: "Reload the page, review the change, and try again.",
		}
	}
	s = cut(res.Yaml, ns, limit)
	byHand := &Problem{Status: http.StatusConflict, Title: "Edit the limit as YAML", Detail: "The enforcement of this limit cannot be switched alone."}
	text, ok := withEnforcement(s.text(), to)
	if s.empty() || !ok {
		return "", 0, s, byHand
	}
	file = s.with(text)
	diff, err := r.Limits.DiffLimits(r.Context(), &quoratev1.DiffLimitsRequest{To: &quoratev1.LimitSet{Yaml: file, Source: editSource}})
	if err != nil {
		return "", 0, s, err
	}
	for _, c := range diff.Changes {
		for _, f := range c.Fields {
			if c.Namespace != ns || c.Limit != limit || f.Field != "enforcement" && f.Field != "fraction" {
				return "", 0, s, byHand
			}
		}
	}
	return file, res.Version, s, nil
}
