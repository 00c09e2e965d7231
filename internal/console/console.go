package console

import (
	"embed"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/api/auth"
	"github.com/quorate/quorate/internal/audit"
	"github.com/quorate/quorate/internal/fairshare"
	"github.com/quorate/quorate/internal/phrase"
)

// Root is the path of the console.
const Root = "/console"

// Deps are the console's dependencies.
type Deps struct {
	// Conn is a connection to the services of the node in this process. It checks permissions,
	// validates and writes the audit log as for any other caller.
	Conn grpc.ClientConnInterface
	// Guard authenticates callers; nil means that authentication is off and everybody has access.
	Guard *auth.Guard
	// Audit logs sign-ins; may be nil.
	Audit *audit.Log
	// Self is the node's name, Version that of its software.
	Self, Version string
	// Settings are the node's settings, without secrets.
	Settings []Setting
	// Logger logs problems; nil discards them.
	Logger *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Setting is one setting of the node, for display.
type Setting struct{ Name, Value, About string }

// Console serves the pages. It is safe for concurrent use.
type Console struct {
	Deps
	api      API
	sessions sessions
	once     onceStore
	flow     flow
	flows    flows
	mux      *http.ServeMux
	pages    map[string]*page
	assets   map[string]asset
	plain    *page // errors and sign-in
	viewers  *fairshare.Pool
	closing  chan struct{}
	close    func()
}

//go:embed static templates
var files embed.FS

// New returns the console of a node.
func New(d Deps) *Console {
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	c := &Console{Deps: d, api: newAPI(d.Conn), mux: http.NewServeMux(), pages: map[string]*page{}, closing: make(chan struct{})}
	c.viewers = fairshare.New(maxViewers, maxViewers)
	if d.Guard != nil {
		c.viewers = fairshare.New(maxViewers, maxViewersOfOne)
	}
	c.close = sync.OnceFunc(func() { close(c.closing) })
	c.assets = loadAssets()
	c.plain = c.parse(Page{Title: "Quorate", Template: "plain"})
	c.mux.HandleFunc("GET "+Root+"/static/{file}", c.serveAsset)
	c.mux.HandleFunc("GET "+Root+"/sign-in", c.showSignIn)
	c.mux.HandleFunc("POST "+Root+"/sign-in", c.signIn)
	c.mux.HandleFunc("POST "+Root+"/sign-out", c.signOut)
	for _, p := range registry(d) {
		c.mount(p)
	}
	c.mux.HandleFunc(Root+"/", c.nothingHere)
	return c
}

// mount registers the paths of a page.
func (c *Console) mount(p Page) {
	made := c.parse(p)
	c.pages[p.Path] = made
	at := Root + "/" + p.Path
	if p.Path == "" {
		at += "{$}"
	}
	c.mux.HandleFunc("GET "+at, c.known(made, c.servePage))
	c.mux.HandleFunc("GET "+Root+"/live/"+liveName(p.Path), c.known(made, c.serveLive))
	for name, load := range p.Data {
		c.mux.HandleFunc("GET "+Root+"/data/"+liveName(p.Path)+"/"+name, c.known(made, serveData(load)))
		c.mux.HandleFunc("POST "+Root+"/data/"+liveName(p.Path)+"/"+name, c.known(made, serveData(load))) // what is too long for an address
	}
	for name, act := range p.Actions {
		c.mux.HandleFunc("POST "+Root+"/"+liveName(p.Path)+"/"+name, c.known(made, c.serveAction(act)))
	}
}

// liveName returns a page's name in paths, where it cannot be empty.
func liveName(p string) string {
	if p == "" {
		return "overview"
	}
	return p
}

// Close ends live updates, so that the server can shut down.
func (c *Console) Close() { c.close() }

// policy is the Content-Security-Policy: only our own files, no inline scripts or styles, no frames
// in other pages.
const policy = "default-src 'self'; base-uri 'none'; form-action 'self'; object-src 'none'; frame-ancestors 'none'"

// maxForm bounds the body of a form: a limit file and its envelope.
const maxForm = 5 << 20

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if err := crossOrigin.Check(req); err != nil {
		c.fail(w, &Request{Request: req, c: c}, &Problem{Status: http.StatusForbidden, Title: "Blocked request from another site", Detail: "The request came from a page of another site. Make changes on the console's own pages."})
		return
	}
	if req.URL.Path == Root {
		http.Redirect(w, req, Root+"/", http.StatusSeeOther)
		return
	}
	req.Body = http.MaxBytesReader(w, req.Body, maxForm)
	c.mux.ServeHTTP(w, req)
}

var crossOrigin = http.NewCrossOriginProtection()

// known passes authenticated requests to next, and redirects others to sign in.
func (c *Console) known(p *page, next func(http.ResponseWriter, *Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		r, ok := c.enter(w, req)
		if !ok {
			return
		}
		r.page = p
		next(w, r)
	}
}

func (c *Console) nothingHere(w http.ResponseWriter, req *http.Request) {
	c.fail(w, &Request{Request: req, c: c}, &Problem{Status: http.StatusNotFound, Title: "Page not found", Detail: "The console has no page at " + phrase.Clip(req.URL.Path, 200) + "."})
}

// below reports whether a path is one of the console's pages, to which sign-in may redirect.
func below(p string) bool {
	return strings.HasPrefix(p, Root+"/") && !strings.ContainsAny(p, "\\\r\n") && strings.HasPrefix(path.Clean(strings.SplitN(p, "?", 2)[0])+"/", Root+"/")
}
