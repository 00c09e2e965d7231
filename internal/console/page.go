package console

import (
	"encoding/json"
	"html/template"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/api/auth"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/jsontext"
	"github.com/quorate/quorate/internal/rbac"
)

// Page is one page. registry.go lists them all; see the package comment.
type Page struct {
	// Path is the path below /console/, one word; empty for the overview.
	Path string
	// Title is shown in the navigation and the browser's tab.
	Title string
	// Group is the heading in the navigation. Pages without one are linked from other pages.
	Group string
	// Template is the file in templates, without .html. It defines "content" and a template for
	// each name in Live. All get the value of Load.
	Template string
	// Need is the permission that the page's first call requires. Callers who have it nowhere do
	// not see the page in the navigation. This is no protection; the calls are.
	Need rbac.Permission
	// Load returns the data of the template. It is called for each view and each live update. It
	// returns errors of calls unchanged.
	Load func(r *Request) (any, error)
	// Live names the templates that are rendered periodically, and sent to the elements
	// data-live="NAME" of open pages when they have changed.
	Live []string
	// Every is the interval; 0 means 2 s.
	Every time.Duration
	// Points returns new points of charts, by chart ID; see [Chart]. It is called with the result
	// of Load. May be nil.
	Points func(data any) map[string]Point
	// Stream sends rows as they arrive, instead of Live. send renders a template for the element
	// data-stream="NAME", which shows the newest first. Stream returns when the context ends or
	// send fails.
	Stream func(r *Request, send func(name string, data any) error) error
	// Data are JSON answers at /console/data/PATH/NAME, for charts that depend on the reader's
	// choices.
	Data map[string]func(r *Request) (any, error)
	// Actions are changes, at POST /console/PATH/NAME.
	Actions map[string]Action
}

// API has clients of the node's services that act as the reader of the page.
type API struct {
	Cluster   quoratev1.ClusterServiceClient
	Limits    quoratev1.LimitServiceClient
	Overrides quoratev1.OverrideServiceClient
	Keys      quoratev1.KeyServiceClient
	Rates     quoratev1.RateServiceClient
	Events    quoratev1.EventServiceClient
	Accounts  quoratev1.AccountAdminServiceClient
	Security  quoratev1.SecurityServiceClient
}

func newAPI(conn grpc.ClientConnInterface) API {
	return API{
		Cluster: quoratev1.NewClusterServiceClient(conn), Limits: quoratev1.NewLimitServiceClient(conn),
		Overrides: quoratev1.NewOverrideServiceClient(conn), Keys: quoratev1.NewKeyServiceClient(conn),
		Rates: quoratev1.NewRateServiceClient(conn), Events: quoratev1.NewEventServiceClient(conn),
		Accounts: quoratev1.NewAccountAdminServiceClient(conn), Security: quoratev1.NewSecurityServiceClient(conn),
	}
}

// Request is a request of an authenticated caller. Calls of API with its context are made as the
// caller.
type Request struct {
	*http.Request
	API
	Caller *auth.Caller // nil if authentication is off
	c      *Console
	page   *page
	signed bool // signed in by a session
}

// Console returns the console that serves the request.
func (r *Request) Console() *Console { return r.c }

// Now returns the current time.
func (r *Request) Now() time.Time { return r.c.Now() }

// Query returns a parameter of the address, trimmed.
func (r *Request) Query(name string) string { return strings.TrimSpace(r.URL.Query().Get(name)) }

// May reports whether the caller has a permission anywhere, to omit what would be refused. The
// calls themselves are checked.
func (r *Request) May(p rbac.Permission) bool {
	return r.c.Guard == nil || r.Caller != nil && r.c.Guard.Somewhere(r.Caller, p)
}

// mayEverywhere reports whether the caller has a permission in all namespaces.
func (r *Request) mayEverywhere(p rbac.Permission) bool {
	return r.c.Guard == nil || r.Caller != nil && r.c.Guard.Has(r.Caller, p, rbac.Everywhere)
}

// fragment reports whether htmx requests a part of a page.
func (r *Request) fragment() bool { return r.Header.Get("HX-Request") == "true" }

// page is a Page with its parsed templates.
type page struct {
	Page
	set *template.Template
}

// home returns the first page of the navigation for callers that are permitted to see nothing on
// the overview, such as the owner of one namespace; empty for the overview.
func (c *Console) home(r *Request) string {
	if r.May(rbac.ClusterRead) || r.mayEverywhere(rbac.RatesRead) {
		return ""
	}
	for _, p := range registry(c.Deps) {
		if p.Group != "" && r.May(p.Need) {
			return p.Path
		}
	}
	return ""
}

// servePage answers with a page.
func (c *Console) servePage(w http.ResponseWriter, r *Request) {
	if r.page.Path == "" {
		if home := c.home(r); home != "" {
			http.Redirect(w, r.Request, Root+"/"+home, http.StatusSeeOther)
			return
		}
	}
	data, err := r.page.Load(r)
	if err != nil {
		c.fail(w, r, err)
		return
	}
	if part := r.Header.Get("HX-Target"); r.fragment() && part != "" {
		if name := r.page.partOf(part); name != "" {
			c.render(w, http.StatusOK, r.page.set, name, data)
			return
		}
	}
	v := c.viewOf(r)
	v.Data = data
	c.render(w, http.StatusOK, r.page.set, "layout", v)
}

// partOf returns the template of the element that htmx will fill: tag#live-NAME.
func (p *page) partOf(target string) string {
	_, id, _ := strings.Cut(target, "#")
	name, ok := strings.CutPrefix(id, "live-")
	for _, l := range p.Live {
		if ok && l == name {
			return name
		}
	}
	return ""
}

// serveData answers with JSON.
func serveData(load func(r *Request) (any, error)) func(http.ResponseWriter, *Request) {
	return func(w http.ResponseWriter, r *Request) {
		data, err := load(r)
		code := http.StatusOK
		if err != nil {
			p := problemOf(err)
			code, data = p.Status, map[string]string{"error": p.Detail, "field": p.Field}
		}
		body, err := json.Marshal(data)
		if err != nil {
			code, body = http.StatusInternalServerError, []byte(`{"error":"the answer has no form in JSON"}`)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		w.Write(jsontext.Escape(body)) //nolint:errcheck // the reader has gone
	}
}
