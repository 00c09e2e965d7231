package account

import (
	"bytes"
	"testing"
)

// TestWholeWay sends a request, a transaction on two ranges, and a snapshot through the codec.
func TestWholeWay(t *testing.T) {
	ref := PolicyRef{Config: ConfigID{App: "cv", Realm: "p:@project", Version: "#1"}, Key: PolicyKey{Name: "day", Resource: "builds"}}
	rule := Policy{Default: 5, Limit: 10, Refill: Refill{Units: 1, Interval: 60}}
	id := func(name string) ID { return ID{App: "cv", Realm: "p:r", Name: name, Resource: "builds"} }
	op := func(name string, delta int64) Op {
		return Op{Account: id(name), Policy: &ref, Rule: &rule, Delta: delta}
	}
	a, b := New(Bounds{}), New(Bounds{})
	play := func(s *Store, c Command) Outcome {
		data, err := EncodeBatch(120*second, []Command{c})
		if err != nil {
			t.Fatal(err)
		}
		at, list, err := DecodeBatch(data)
		if err != nil {
			t.Fatal(err)
		}
		return s.Apply(at, &list[0])
	}
	req := Request{By: "me", ID: "1", Ops: []Op{op("x", -2)}}
	if out := play(a, Command{Apply: &req}); out.Code != Done || out.Results[0].New != 3 || !out.Results[0].Created {
		t.Fatalf("apply: %+v", out)
	}
	if out := play(a, Command{Apply: &req}); out.Code != Repeated || out.Results[0].New != 3 {
		t.Fatalf("again: %+v", out)
	}
	tx := Tx{ID: TxID{1}, Home: 1}
	part := func(o Op) Request { return Request{By: "me", ID: "2", Ops: []Op{o}} }
	begun := play(a, Command{Begin: &Begin{Tx: tx.ID, Home: 1, Part: part(op("x", -1))}})
	prepared := play(b, Command{Prepare: &Prepare{Tx: tx, Part: part(op("y", 1))}})
	if begun.Code != Done || prepared.Code != Done {
		t.Fatalf("begun %+v, prepared %+v", begun, prepared)
	}
	if out := play(a, Command{Apply: &Request{Ops: []Op{op("x", 1)}}}); out.Code != Held || out.Holder != tx {
		t.Fatalf("held: %+v", out)
	}
	all := append(begun.Results, prepared.Results...)
	if out := play(a, Command{Decide: &Decide{Tx: tx.ID, Commit: true, Results: all}}); out.Code != Done || len(out.Results) != 2 {
		t.Fatalf("decided %+v", out)
	}
	play(b, Command{Finish: &Finish{Tx: tx.ID, Commit: true}})
	play(a, Command{Forget: &tx.ID})
	if x, y := a.View().Get(180*second, id("x")), b.View().Get(180*second, id("y")); x.Projected != 3 || y.Projected != 7 {
		t.Fatalf("x %+v, y %+v", x, y)
	}
	if out := play(a, Command{Begin: &Begin{Tx: TxID{2}, Part: part(op("x", -1))}}); out.Code != Repeated || len(out.Results) != 2 {
		t.Fatalf("repeated: %+v", out)
	}
	var one, two bytes.Buffer
	c := New(Bounds{})
	if err := a.View().Write(&one); err != nil {
		t.Fatal(err)
	}
	if err := c.Restore(bytes.NewReader(one.Bytes())); err != nil {
		t.Fatal(err)
	}
	if err := c.View().Write(&two); err != nil || !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Fatal("the snapshot of the restored store differs")
	}
	if h := c.View().History(0, id("x")).History; len(h) != 2 || h[0].RequestID != "2" || h[1].Policy == nil {
		t.Fatalf("history %+v", h)
	}
	if l := c.View().List(0, Filter{App: "cv", Realm: "p:r"}, ID{}, 10); len(l) != 1 {
		t.Fatalf("list %+v", l)
	}
}
