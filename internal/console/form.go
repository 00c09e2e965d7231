package console

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"strings"
	"sync"
)

// Action is a change. It has two steps, with JavaScript or without: the first shows what
// would happen, or the form to fill in; the second does it, once, however often the
// button is pressed.
type Action struct {
	// Confirm looks at what was filled in (r.PostForm) and says what will happen. An
	// error with a field is shown at that field, if the confirmation has it: so a
	// Confirmation may be returned together with an error.
	Confirm func(r *Request) (*Confirmation, error)
	// Do does it. r.PostForm has what Confirm was given, and its fields.
	Do func(r *Request) (*Result, error)
}

// Confirmation is what is shown before a change.
type Confirmation struct {
	Title  string
	Will   []string // what will happen, a sentence each
	Diff   Diff     // what changes, if that can be shown line by line
	Fields []Field  // what is to be filled in, or comes along hidden
	Button string   // such as "Drain n2"
	Danger bool     // it cannot be undone, or clients will feel it

	// Set by the console.
	Kind, Action, Once string
	Problem            *Problem
}

// Field is one field of a form.
type Field struct {
	Name, Label, Hint string
	Type              string // text, number, textarea, select, checkbox or hidden
	Value             string
	Options           []Option // of select
	Required          bool
	Error             string // what is wrong with it; set by the console
}

// Option is one choice of a select.
type Option struct{ Value, Label string }

// Hidden returns fields that carry what was filled in before.
func Hidden(r *Request, names ...string) []Field {
	var out []Field
	for _, n := range names {
		out = append(out, Field{Name: n, Type: "hidden", Value: r.PostForm.Get(n)})
	}
	return out
}

// Result is what came of a change.
type Result struct {
	Title string
	Lines []string // sentences
	// Secret is shown once, and kept nowhere; Label says what it is.
	Secret, Label string
	// Next is where the reader goes on, a path of the console; empty is the page.
	Next, NextLabel string

	// Set by the console.
	Kind string
	Back string
}

// Bounds of what is remembered of changes.
const maxOnce = 2000

// onceStore remembers changes that were begun, so that one that is sent twice is made
// once. At most maxOnce, the oldest go first. The zero value is ready.
type onceStore struct {
	mu    sync.Mutex
	done  map[string]*Result // nil: under way
	order []string
}

// begin returns false if the change was begun before, and its result if it is over.
func (o *onceStore) begin(id string) (first bool, was *Result) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.done == nil {
		o.done = map[string]*Result{}
	}
	if was, there := o.done[id]; there {
		return false, was
	}
	if len(o.order) >= maxOnce {
		delete(o.done, o.order[0])
		o.order = o.order[1:]
	}
	o.done[id] = nil
	o.order = append(o.order, id)
	return true, nil
}

// end keeps a result without its secret; a change that failed may be tried again.
func (o *onceStore) end(id string, res *Result) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, there := o.done[id]; !there {
		return
	}
	if res == nil {
		delete(o.done, id)
		return
	}
	kept := *res
	if kept.Secret != "" {
		kept.Secret = ""
		kept.Lines = append([]string{"It was made before, and its secret was shown then; it is kept nowhere."}, kept.Lines...)
	}
	o.done[id] = &kept
}

func newOnce() string {
	var raw [16]byte
	_, _ = rand.Read(raw[:])
	return hex.EncodeToString(raw[:])
}

// serveAction carries one step of a change out.
func (c *Console) serveAction(a Action) func(http.ResponseWriter, *Request) {
	return func(w http.ResponseWriter, r *Request) {
		if err := r.ParseForm(); err != nil {
			c.fail(w, r, &Problem{Status: http.StatusRequestEntityTooLarge, Title: "That is too much", Detail: "The form is larger than 5 MiB, or is not a form."})
			return
		}
		once := r.PostForm.Get("once")
		if once == "" {
			c.confirm(w, r, a, nil, newOnce())
			return
		}
		id := clip(once, 64) + "\x00" + r.URL.Path // of one action
		if r.Caller != nil {
			id += "\x00" + r.Caller.Identity
		}
		first, was := c.once.begin(id)
		switch {
		case first:
		case was == nil:
			c.fail(w, r, &Problem{Status: http.StatusConflict, Title: "It is under way", Detail: "The same change was sent twice, and the first is not over yet."})
			return
		default:
			c.result(w, r, was)
			return
		}
		var res *Result
		defer func() { c.once.end(id, res) }() // whatever happens
		done, err := a.Do(r)
		if err != nil {
			c.confirm(w, r, a, problemOf(err), once)
			return
		}
		res = done
		c.result(w, r, done)
	}
}

// confirm shows what will happen, or what is wrong with what was filled in.
func (c *Console) confirm(w http.ResponseWriter, r *Request, a Action, p *Problem, once string) {
	conf, err := a.Confirm(r)
	if conf == nil {
		if err == nil {
			err = p
		}
		c.fail(w, r, err)
		return
	}
	shown := *conf
	shown.Kind, shown.Action, shown.Once, shown.Problem = "confirm", r.URL.Path, once, p
	if p == nil && err != nil {
		shown.Problem = problemOf(err)
	}
	shown.Fields = withErrors(conf.Fields, shown.Problem)
	code := http.StatusOK
	if shown.Problem != nil {
		code = shown.Problem.Status
	}
	c.answer(w, r, code, "confirm", &shown)
}

// withErrors puts what is wrong at its field.
func withErrors(fields []Field, p *Problem) []Field {
	out := append([]Field(nil), fields...)
	for i := range out {
		if p != nil && p.Field != "" && (p.Field == out[i].Name || strings.HasSuffix(p.Field, "."+out[i].Name)) {
			out[i].Error = p.Detail
		}
	}
	return out
}

func (c *Console) result(w http.ResponseWriter, r *Request, res *Result) {
	shown := *res
	shown.Kind, shown.Back = "result", Root+"/"+r.page.Path
	c.answer(w, r, http.StatusOK, "result", &shown)
}

// answer shows a step of a change: in the dialog of a page, or as a page of its own.
func (c *Console) answer(w http.ResponseWriter, r *Request, code int, name string, data any) {
	if r.fragment() {
		c.render(w, code, c.plain.set, name, data)
		return
	}
	v := c.viewOf(&Request{Request: r.Request, Caller: r.Caller, c: c, signed: r.signed, page: c.plain})
	v.Data = data
	c.render(w, code, c.plain.set, "layout", v)
}
