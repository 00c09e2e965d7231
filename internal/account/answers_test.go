package account

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestAnswersBound checks that remembered requests with large answers have a bound in bytes, whatever their number, which
// a snapshot does not change, and that the room returns when the requests are forgotten.
func TestAnswersBound(t *testing.T) {
	const most = 100_000
	w := newWorld(t)
	w.store = New(Bounds{MaxAnswers: most})
	p := w.load("p", Policy{Default: 10, Limit: 1000, Lifetime: 30 * 24 * time.Hour})
	call := func(id string) Outcome {
		r := Request{By: "me", ID: id, TTL: time.Hour}
		for i := range 100 {
			r.Ops = append(r.Ops, benchRequest(w, p, i, 0).Ops...)
		}
		return w.store.Apply(w.now, &Command{Apply: &r})
	}
	n := 0
	for ; ; n++ {
		out := call(strings.Repeat("x", n+1))
		if out.Code == Full {
			if !strings.Contains(out.Message, "at most 100000") {
				t.Errorf("the message is %q", out.Message)
			}
			break
		}
		if out.Code != Done || n > most/100 {
			t.Fatalf("request %d: %+v; %d bytes are remembered", n, out, w.store.appliedBytes)
		}
	}
	if size := w.store.appliedBytes; size < most || size > most+2000 {
		t.Errorf("%d bytes are remembered; at most %d and one answer may be", size, most)
	}
	other := New(Bounds{MaxAnswers: most})
	if err := other.Restore(bytes.NewReader(snapshotOf(t, w.store.View()))); err != nil {
		t.Fatal(err)
	}
	if other.appliedBytes != w.store.appliedBytes {
		t.Errorf("restored, %d bytes are remembered; before, %d", other.appliedBytes, w.store.appliedBytes)
	}
	w.pass(2 * time.Hour)
	if out := call("later"); out.Code != Done {
		t.Errorf("after the others were forgotten: %+v", out)
	}
	w.store.Apply(w.now.Add(24*time.Hour), &Command{Collect: &Collect{Max: maxCollect}})
	if w.store.appliedBytes != 0 || w.store.applied.Len() != 0 {
		t.Errorf("%d bytes of %d requests are left", w.store.appliedBytes, w.store.applied.Len())
	}
}
