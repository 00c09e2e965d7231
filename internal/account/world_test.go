package account

import (
	"bytes"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// world is one range, a clock and the loaded policies.
type world struct {
	t        testing.TB
	store    *Store
	now      quota.Time
	policies map[PolicyRef]Policy
}

// midnight is the start time of the clocks of tests.
var midnight = quota.Time(time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC).UnixNano())

func newWorld(t testing.TB) *world {
	return &world{t: t, store: New(Bounds{}), now: midnight, policies: map[PolicyRef]Policy{}}
}

// clock sets the time of the first day, such as "07:40" or "07:40:30".
func (w *world) clock(s string) {
	w.t.Helper()
	layout := "15:04"
	if len(s) > len(layout) {
		layout = "15:04:05"
	}
	at, err := time.Parse(layout, s)
	if err != nil {
		w.t.Fatal(err)
	}
	w.now = midnight.Add(time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute + time.Duration(at.Second())*time.Second)
}

func (w *world) pass(d time.Duration) { w.now = w.now.Add(d) }

// load loads a policy under a name.
func (w *world) load(name string, p Policy) *PolicyRef {
	w.t.Helper()
	ref := testRef(name)
	if err := p.Validate(); err != nil {
		w.t.Fatalf("policy %s: %v", name, err)
	}
	w.policies[*ref] = p
	return ref
}

func testRef(name string) *PolicyRef {
	return &PolicyRef{
		Config: ConfigID{App: "cv", Realm: "chromium:@project", Version: "#v1"},
		Key:    PolicyKey{Name: name, Resource: "builds"},
	}
}

func (w *world) purge(ref *PolicyRef) { delete(w.policies, *ref) }

// testID returns the account id for a name.
func testID(name string) ID {
	return ID{App: "cv", Realm: "chromium:try", Identity: "user:" + name, Namespace: "bucket|linux", Name: name, Resource: "builds"}
}

// op returns an operation that adds delta to an account's balance, and sets a policy unless ref is
// nil.
func op(name string, delta int64, ref *PolicyRef) Op {
	return Op{Account: testID(name), Delta: delta, Policy: ref}
}

func (o Op) to(r RelativeTo) Op { o.RelativeTo = r; return o }

func (o Op) with(options OpOptions) Op { o.Options = options; return o }

// request makes a request as a node does: with a hash and the loaded policies' rules.
func (w *world) request(by, id string, ops ...Op) *Request {
	r := &Request{By: by, ID: id, Hash: HashOps(ops), Ops: ops}
	for i := range r.Ops {
		if o := &r.Ops[i]; o.Policy != nil {
			o.Rule = nil
			if rule, ok := w.policies[*o.Policy]; ok {
				o.Rule = &rule
			}
		}
	}
	return r
}

// apply encodes and decodes a command, as the log does, and applies it to a store.
func (w *world) apply(s *Store, c Command) Outcome {
	w.t.Helper()
	data, err := EncodeBatch(w.now, []Command{c})
	if err != nil {
		w.t.Fatal(err)
	}
	at, list, err := DecodeBatch(data)
	if err != nil {
		w.t.Fatal(err)
	}
	return s.Apply(at, &list[0])
}

func (w *world) do(ops ...Op) Outcome {
	w.t.Helper()
	return w.apply(w.store, Command{Apply: w.request("user:me", "", ops...)})
}

// must is do, and fails the test unless all operations succeeded.
func (w *world) must(ops ...Op) []Result {
	w.t.Helper()
	out := w.do(ops...)
	if out.Code != Done {
		w.t.Fatalf("the operations were not applied: %+v", out)
	}
	return out.Results
}

// fails fails the test unless the last operation fails with this status and nothing changes.
func (w *world) fails(want Status, ops ...Op) {
	w.t.Helper()
	before := w.bytes()
	out := w.do(ops...)
	if out.Code != Failed {
		w.t.Fatalf("the operations were applied: %+v", out)
	}
	if got := out.Results[len(ops)-1]; got.Status != want || got.Message == "" {
		w.t.Errorf("status %d (%s), want %d and why", got.Status, got.Message, want)
	}
	if !bytes.Equal(before, w.bytes()) {
		w.t.Error("a failed request has changed the store")
	}
}

func (w *world) get(name string) State { return w.store.View().History(w.now, testID(name)) }

// balance fails the test unless an account's balance, with refills, is as wanted.
func (w *world) balance(name string, want int64) {
	w.t.Helper()
	if s := w.get(name); !s.Exists || s.Projected != want {
		w.t.Errorf("%s at %v has %d (exists: %v), want %d", name, w.now, s.Projected, s.Exists, want)
	}
}

// bytes returns the state without the clock: stores that differ only in their time have equal
// bytes.
func (w *world) bytes() []byte {
	w.t.Helper()
	v := w.store.View()
	v.now = 0
	return snapshotOf(w.t, v)
}

func snapshotOf(t testing.TB, v View) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := v.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func check[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
