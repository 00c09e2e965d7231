package console

import (
	"math"
	"strconv"
	"strings"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/rbac"
)

// limitsOnPage is the number of limits on a page, and namespacesShown that of namespaces to choose
// from.
const (
	limitsOnPage    = 50
	namespacesShown = 500
)

// limitsPages returns the pages for owners of limits.
func limitsPages() []Page {
	return []Page{
		{Path: "limits", Title: "Limits", Group: "Limits", Template: "limits", Need: rbac.LimitsRead, Load: loadLimits, Actions: map[string]Action{"delete": deleteLimit, "enforcement": switchEnforcement}},
		{Path: "edit", Title: "Edit limits", Template: "edit", Need: rbac.LimitsRead, Load: loadEdit, Data: map[string]func(*Request) (any, error){"check": checkEdit}, Actions: map[string]Action{"apply": applyEdit}},
		limitPageOf(), keyPageOf(),
		{Path: "versions", Title: "Changes", Group: "Limits", Template: "versions", Need: rbac.LimitsRead, Load: loadVersions, Actions: map[string]Action{"rollback": rollback}},
	}
}

// limitsList is the data of the page of all limits.
type limitsList struct {
	Version    uint64
	Namespaces []namespaceCount
	More       int // namespaces not listed
	Namespace  string
	Search     string
	Rows       []*quoratev1.Limit
	Found, All int
	From       int // index of the first row
	Prev, Next string
	MayWrite   bool
	Use        map[string]*limitUse // by namespace/limit; nil if it cannot be read
}

type namespaceCount struct {
	Name   string
	Limits int
}

func loadLimits(r *Request) (any, error) {
	res, err := r.Limits.GetLimits(r.Context(), &quoratev1.GetLimitsRequest{})
	if err != nil {
		return nil, err
	}
	l := &limitsList{Version: res.Version, All: len(res.Limits), Namespace: r.Query("namespace"), Search: r.Query("q"), MayWrite: r.May(rbac.LimitsWrite)}
	l.namespaces(res.Limits)
	found := l.matching(res.Limits)
	l.Found = len(found)
	page, _ := strconv.Atoi(r.Query("page"))
	page = max(0, min(page, (len(found)-1)/limitsOnPage))
	l.From = page * limitsOnPage
	l.Rows = found[l.From:min(l.From+limitsOnPage, len(found))]
	if page > 0 {
		l.Prev = l.at(page - 1)
	}
	if l.From+limitsOnPage < len(found) {
		l.Next = l.at(page + 1)
	}
	l.loadUse(r)
	return l, nil
}

func (l *limitsList) at(page int) string {
	p := ""
	if page > 0 {
		p = strconv.Itoa(page)
	}
	to, err := link("limits", "namespace", l.Namespace, "q", l.Search, "page", p)
	if err != nil {
		panic(err) // invariant: the parameters are in pairs
	}
	return to
}

// namespaces counts the limits of each namespace; the limits are sorted.
func (l *limitsList) namespaces(all []*quoratev1.Limit) {
	for _, one := range all {
		n := len(l.Namespaces)
		if n > 0 && l.Namespaces[n-1].Name == one.Namespace {
			l.Namespaces[n-1].Limits++
			continue
		}
		l.Namespaces = append(l.Namespaces, namespaceCount{one.Namespace, 1})
	}
	if n := len(l.Namespaces); n > namespacesShown {
		l.More, l.Namespaces = n-namespacesShown, l.Namespaces[:namespacesShown]
	}
}

// matching returns the limits of the namespace whose name or parent contains all words of the
// search.
func (l *limitsList) matching(all []*quoratev1.Limit) []*quoratev1.Limit {
	words := strings.Fields(strings.ToLower(l.Search))
	if len(words) == 0 && l.Namespace == "" {
		return all
	}
	var out []*quoratev1.Limit
	for _, one := range all {
		if l.Namespace != "" && one.Namespace != l.Namespace {
			continue
		}
		name := strings.ToLower(one.Namespace + "/" + one.Name + " " + one.Parent)
		has := true
		for _, w := range words {
			has = has && strings.Contains(name, w)
		}
		if has {
			out = append(out, one)
		}
	}
	return out
}

// deleteLimit deletes one limit.
var deleteLimit = Action{
	Confirm: func(r *Request) (*Confirmation, error) {
		ns, limit := r.PostForm.Get("namespace"), r.PostForm.Get("limit")
		will := []string{
			"The limit " + limitTitle(ns, limit) + " is removed. The history keeps it: a rollback brings it back.",
			"Checks of it use the default of its namespace, or are refused as unknown without a default.",
		}
		if p := childrenOf(r, ns, limit); p != "" {
			will = append(will, p)
		}
		return &Confirmation{
			Title: "Delete " + limitTitle(ns, limit), Will: will, Button: "Delete the limit", Danger: true,
			Fields: append(Hidden(r, "namespace", "limit", "version"), commentField(r)),
		}, nil
	},
	Do: func(r *Request) (*Result, error) {
		req := &quoratev1.DeleteLimitsRequest{
			Limits:  []*quoratev1.LimitRef{{Namespace: r.PostForm.Get("namespace"), Limit: r.PostForm.Get("limit")}},
			Comment: r.PostForm.Get("comment"), ExpectedVersion: formVersion(r, "version"),
		}
		res, err := r.Limits.DeleteLimits(r.Context(), req)
		if err != nil {
			return nil, err
		}
		return applied("Limit deleted", res.Version, true, "limits"), nil
	},
}

// childrenOf describes which limits have the limit as their parent.
func childrenOf(r *Request, namespace, limit string) string {
	res, err := r.Limits.GetLimits(r.Context(), &quoratev1.GetLimitsRequest{})
	if err != nil {
		return ""
	}
	var names []string
	for _, l := range res.Limits {
		if l.Namespace == namespace && l.Parent == limit {
			names = append(names, l.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "The limit is the parent of " + phrase.Clip(strings.Join(names, ", "), 300) + "; delete those first."
}

// commentField returns the field for the comment of a change.
func commentField(r *Request) Field {
	return Field{Name: "comment", Label: "Why", Type: "text", Value: r.PostForm.Get("comment"), Hint: "Kept in the history, at most 512 bytes."}
}

// formVersion returns the expected current version; nil means any.
func formVersion(r *Request, name string) *uint64 {
	v, err := strconv.ParseUint(r.PostForm.Get(name), 10, 64)
	if err != nil || v > math.MaxInt64 {
		return nil
	}
	return &v
}

// applied returns the result of a change of the limits.
func applied(title string, version uint64, changed bool, next string) *Result {
	res := &Result{Title: title, Next: Root + "/" + next, NextLabel: "Continue"}
	if changed {
		res.Lines = []string{"Version " + strconv.FormatUint(version, 10) + " of the limits becomes active on all nodes within a second."}
	} else {
		res.Title, res.Lines = "Nothing to change", []string{"The limits are the same as in version " + strconv.FormatUint(version, 10) + "."}
	}
	return res
}
