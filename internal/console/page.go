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

// Page is one page. registry.go lists them all; see the package's text.
type Page struct {
	// Path is below /console/, one word; empty is the overview.
	Path string
	// Title is in the navigation and the browser's tab.
	Title string
	// Group is the heading above it in the navigation; pages without one are reached
	// from others.
	Group string
	// Template is the file in templates, without .html. It defines "content", and a
	// template for each name in Live. All are given what Load returns.
	Template string
	// Need is the permission that its first call asks for. Who has it nowhere does not
	// see the page in the navigation; it is no protection: the calls are.
	Need rbac.Permission
	// Load returns what the template shows. It is called for each view, and each turn of
	// live updates; errors of calls are returned as they come.
	Load func(r *Request) (any, error)
	// Live names templates that are rendered again every so often, and sent to the
	// elements data-live="NAME" of open pages when they have changed.
	Live []string
	// Every is how often; 2 s when 0.
	Every time.Duration
	// Points returns new points of charts, by chart id; see [Chart]. It is called after Load, with
	// what that returned. nil: none.
	Points func(data any) map[string]Point
	// Stream sends rows as they come, instead of what Live does: send renders a template for
	// the element data-stream="NAME", which shows the newest first. It returns when
	// the context ends or send fails.
	Stream func(r *Request, send func(name string, data any) error) error
	// Data are answers in JSON, at /console/data/PATH/NAME: for charts that change with
	// what the reader chooses.
	Data map[string]func(r *Request) (any, error)
	// Actions are changes, at POST /console/PATH/NAME.
	Actions map[string]Action
}

// API are the services of the node, as whoever reads the page.
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

// Request is a request of a known caller. Its context carries the caller: calls on API
// that are given it are made as the caller.
type Request struct {
	*http.Request
	API
	Caller *auth.Caller // nil: authentication is off
	c      *Console
	page   *page
	signed bool // in by a session
}

// Console is what serves the request.
func (r *Request) Console() *Console { return r.c }

// Now is the time.
func (r *Request) Now() time.Time { return r.c.Now() }

// Query returns a parameter of the address, trimmed.
func (r *Request) Query(name string) string { return strings.TrimSpace(r.URL.Query().Get(name)) }

// May says whether the caller has a permission somewhere: to leave out what would be
// refused. The calls themselves decide.
func (r *Request) May(p rbac.Permission) bool {
	return r.c.Guard == nil || r.Caller != nil && r.c.Guard.Somewhere(r.Caller, p)
}

// mayEverywhere says whether the caller has a permission in all namespaces.
func (r *Request) mayEverywhere(p rbac.Permission) bool {
	return r.c.Guard == nil || r.Caller != nil && r.c.Guard.Has(r.Caller, p, rbac.Everywhere)
}

// fragment says whether htmx asks for a part of a page.
func (r *Request) fragment() bool { return r.Header.Get("HX-Request") == "true" }

// page is a Page with its templates.
type page struct {
	Page
	set *template.Template
}

// home is the first page of the navigation for who may see nothing of the overview, such as the owner of one
// namespace; empty is the overview.
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
	c.show(w, r, http.StatusOK, data)
}

// partOf returns the template of the element that htmx is to fill: tag#live-NAME.
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
