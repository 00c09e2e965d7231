package console

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/quorate/quorate/internal/phrase"
)

// Action is a change in two steps, with or without JavaScript: the first shows what would happen,
// or a form; the second makes the change, once, however often the button is pressed.
type Action struct {
	// Confirm reads the form (r.PostForm) and returns what will happen. It may return a
	// Confirmation together with an error: if the error has a field of the Confirmation, it is
	// shown there.
	Confirm func(r *Request) (*Confirmation, error)
	// Do makes the change. r.PostForm contains the input of Confirm and its fields.
	Do func(r *Request) (*Result, error)
}

// Confirmation is shown before a change.
type Confirmation struct {
	Title  string
	Will   []string // what will happen, in sentences
	Diff   Diff     // line diff, if there is one
	Fields []Field  // to fill in, or hidden
	Button string   // such as "Drain n2"
	Danger bool     // cannot be undone, or affects clients

	// The other fields are set by the console.
	Kind, Action, Once string
	Problem            *Problem
}

// Field is one field of a form.
type Field struct {
	Name, Label, Hint string
	Type              string // text, number, textarea, select, checkbox or hidden
	Value             string
	Options           []Option // for select
	Required          bool
	Error             string // set by the console
}

// Option is a choice of a select.
type Option struct{ Value, Label string }

// Hidden returns hidden fields with the current values.
func Hidden(r *Request, names ...string) []Field {
	var out []Field
	for _, n := range names {
		out = append(out, Field{Name: n, Type: "hidden", Value: r.PostForm.Get(n)})
	}
	return out
}

// Result is shown after a change.
type Result struct {
	Title string
	Lines []string // sentences
	// Secret is shown once and not stored; Label describes it.
	Secret, Label string
	// Next is the path of the console to continue at; empty means the page.
	Next, NextLabel string

	// The other fields are set by the console.
	Kind string
	Back string
}

// maxOnce bounds the remembered changes.
const maxOnce = 2000

// onceStore remembers started changes, so that one that is sent twice is made once. It keeps at
// most maxOnce and drops the oldest. The zero value is ready to use.
type onceStore struct {
	mu    sync.Mutex
	done  map[string]*Result // nil while in progress
	order []string
}

// begin returns false if the change was started before, and its result if it is complete.
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

// end stores a result without its secret. A failed change may be repeated.
func (o *onceStore) end(id string, res *Result) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, there := o.done[id]; !there {
		return
	}
	if res == nil {
		delete(o.done, id)
		o.order = slices.DeleteFunc(o.order, func(other string) bool { return other == id })
		return
	}
	kept := *res
	if kept.Secret != "" {
		kept.Secret = ""
		kept.Lines = append([]string{"It was created before and its secret was shown then. The secret is not stored."}, kept.Lines...)
	}
	o.done[id] = &kept
}

func newOnce() string {
	var raw [16]byte
	_, _ = rand.Read(raw[:])
	return hex.EncodeToString(raw[:])
}

// serveAction executes one step of a change.
func (c *Console) serveAction(a Action) func(http.ResponseWriter, *Request) {
	return func(w http.ResponseWriter, r *Request) {
		if err := r.ParseForm(); err != nil {
			c.fail(w, r, unread(err, "The form is larger than 5 MiB, or is not valid."))
			return
		}
		once := r.PostForm.Get("once")
		if once == "" {
			c.confirm(w, r, a, nil, newOnce())
			return
		}
		id := phrase.Clip(once, 64) + "\x00" + r.URL.Path // of one action
		if r.Caller != nil {
			id += "\x00" + r.Caller.Identity
		}
		first, was := c.once.begin(id)
		switch {
		case first:
		case was == nil:
			c.fail(w, r, &Problem{Status: http.StatusConflict, Title: "In progress", Detail: "The same change was sent twice, and the first is not finished."})
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

// confirm shows what will happen, or what is wrong with the input.
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

// withErrors sets the error of the field that the problem names.
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

// answer shows a step of a change, in the dialog of a page or as a page.
func (c *Console) answer(w http.ResponseWriter, r *Request, code int, name string, data any) {
	if r.fragment() {
		c.render(w, code, c.plain.set, name, data)
		return
	}
	v := c.viewOf(&Request{Request: r.Request, Caller: r.Caller, c: c, signed: r.signed, page: c.plain})
	v.Data = data
	c.render(w, code, c.plain.set, "layout", v)
}
