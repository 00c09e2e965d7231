package console

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
)

// view is the data of the layout.
type view struct {
	Page     *page
	Data     any
	Nav      []navGroup
	Who      string // the caller's identity; empty if authentication is off
	Signed   bool   // by a session, which can be ended
	Self     string
	Version  string
	LiveFrom string // address of live updates; empty for none
	Bare     bool   // without navigation
}

type navGroup struct {
	Title string
	Items []navItem
}

type navItem struct {
	Title, Href string
	Here        bool
}

func (c *Console) viewOf(r *Request) *view {
	v := &view{Page: r.page, Self: c.Self, Version: c.Version, Signed: r.signed}
	if r.Caller != nil {
		v.Who = r.Caller.Identity
	}
	if len(r.page.Live) > 0 || r.page.Points != nil || r.page.Stream != nil {
		v.LiveFrom = Root + "/live/" + liveName(r.page.Path)
		if r.URL.RawQuery != "" {
			v.LiveFrom += "?" + r.URL.RawQuery
		}
	}
	for _, p := range registry(c.Deps) {
		if p.Group == "" || !r.May(p.Need) {
			continue
		}
		if len(v.Nav) == 0 || v.Nav[len(v.Nav)-1].Title != p.Group {
			v.Nav = append(v.Nav, navGroup{Title: p.Group})
		}
		g := &v.Nav[len(v.Nav)-1]
		g.Items = append(g.Items, navItem{p.Title, Root + "/" + p.Path, p.Path == r.page.Path})
	}
	return v
}

// render executes a template completely before it writes, or writes an error.
func (c *Console) render(w http.ResponseWriter, code int, set *template.Template, name string, data any) {
	var b bytes.Buffer
	if err := set.ExecuteTemplate(&b, name, data); err != nil {
		c.Logger.Error("cannot show a page of the console", "template", name, "err", err)
		http.Error(w, "The page cannot be shown; see the node's log for the reason.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	w.Write(b.Bytes()) //nolint:errcheck // the reader has gone
}

// parse parses the templates of a page: the layout, the shared parts, its own.
func (c *Console) parse(p Page) *page {
	set := template.New(p.Template).Funcs(c.funcs())
	set, err := set.ParseFS(files, "templates/layout.html", "templates/parts.html", "templates/"+p.Template+".html")
	if err != nil {
		panic(err) // invariant: the templates are built in, and the tests have parsed them
	}
	return &page{p, set}
}

// asset is a static file.
type asset struct {
	body    []byte
	kind    string
	version string // in addresses, so that browsers can cache it
}

// loadAssets reads the static files; licenses are not served.
func loadAssets() map[string]asset {
	out := map[string]asset{}
	list, err := fs.ReadDir(files, "static")
	if err != nil {
		panic(err) // invariant: the files are built in
	}
	for _, f := range list {
		if strings.HasPrefix(f.Name(), "LICENSE") {
			continue
		}
		body, err := fs.ReadFile(files, "static/"+f.Name())
		if err != nil {
			panic(err) // invariant: the files are built in
		}
		sum := sha256.Sum256(body)
		out[f.Name()] = asset{body, kindOf(f.Name()), hex.EncodeToString(sum[:6])}
	}
	return out
}

func kindOf(name string) string {
	switch path.Ext(name) { // the machine's own table may lack them
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return mime.TypeByExtension(path.Ext(name))
}

// static returns the address of a static file.
func (c *Console) static(name string) string {
	return Root + "/static/" + name + "?v=" + c.assets[name].version
}

func (c *Console) serveAsset(w http.ResponseWriter, req *http.Request) {
	a, ok := c.assets[req.PathValue("file")]
	if !ok {
		c.nothingHere(w, req)
		return
	}
	w.Header().Set("Content-Type", a.kind)
	if req.URL.Query().Get("v") == a.version {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	w.Write(a.body) //nolint:errcheck // the reader has gone
}
