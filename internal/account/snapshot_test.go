package account

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
)

func restored(t testing.TB, data []byte) *Store {
	t.Helper()
	s := New(Bounds{})
	if err := s.Restore(bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	return s
}

// fullWorld has one of everything that a snapshot can hold.
func fullWorld(t testing.TB) *world {
	w := newWorld(t)
	p := w.load("p", Policy{Default: 5, Limit: 9, Refill: Refill{Units: 1, Interval: 60, Offset: 7}, Lifetime: time.Hour})
	q := w.load("q", Policy{Default: 5, Limit: 9, Options: AbsoluteResource})
	w.must(op("a", 0, p), op("b", -3, q), op("c", -5, nil).to(Zero).with(IgnorePolicyBounds))
	w.apply(w.store, Command{Apply: w.request("user:me", "r1", op("a", 1, q), op("d", 1, p))})
	w.apply(w.store, Command{Begin: &Begin{Tx: TxID{1}, Home: 1, Part: *w.request("user:me", "r2", op("a", 1, nil), op("e", 0, q))}})
	w.apply(w.store, Command{Begin: &Begin{Tx: TxID{2}, Home: 1, Part: *w.request("user:me", "r3", op("d", 1, nil))}})
	w.apply(w.store, Command{Decide: &Decide{Tx: TxID{2}, Commit: true, Results: []Result{{New: 7, Previous: 6, Adjusted: 6}}}})
	w.apply(w.store, Command{Prepare: &Prepare{Tx: Tx{ID: TxID{3}, Home: 2}, Part: *w.request("", "", op("b", 1, nil))}})
	w.apply(w.store, Command{Finish: &Finish{Tx: TxID{4}}})
	return w
}

// TestSnapshotKeepsEverything restores a store, and applies the same commands to both.
func TestSnapshotKeepsEverything(t *testing.T) {
	w := fullWorld(t)
	data := snapshotOf(t, w.store.View())
	other := restored(t, data)
	check(t, "the same bytes", bytes.Equal(snapshotOf(t, other.View()), data), true)
	for i, c := range []Command{
		{Apply: w.request("user:me", "r1", op("a", 1, testRef("q")), op("d", 1, testRef("p")))},
		{Apply: w.request("", "", op("a", 1, nil))},
		{Decide: &Decide{Tx: TxID{1}, Commit: true}},
		{Forget: &TxID{2}},
		{Finish: &Finish{Tx: TxID{3}, Commit: true}},
		{Prepare: &Prepare{Tx: Tx{ID: TxID{4}, Home: 2}, Part: *w.request("", "", op("b", 1, nil))}},
		{Collect: &Collect{Max: 100}},
	} {
		w.pass(50 * time.Minute)
		one, two := w.apply(w.store, c), w.apply(other, c)
		check(t, fmt.Sprint("command ", i), fmt.Sprint(two), fmt.Sprint(one))
	}
	check(t, "the same bytes afterwards", bytes.Equal(snapshotOf(t, other.View()), snapshotOf(t, w.store.View())), true)
	checkIndexes(t, other)
}

// TestViewStays checks that a view does not change with the store, also while it is written.
func TestViewStays(t *testing.T) {
	w := fullWorld(t)
	v := w.store.View()
	data := snapshotOf(t, v)
	done := make(chan []byte)
	go func() {
		var b bytes.Buffer
		for range 50 {
			b.Reset()
			_ = v.Write(&b) // to memory
		}
		done <- b.Bytes()
	}()
	for i := range 2000 {
		w.must(op(fmt.Sprint("new", i), 1, testRef("q")), op("c", 1, nil).with(IgnorePolicyBounds))
	}
	check(t, "the same bytes", bytes.Equal(<-done, data), true)
}

// TestRestoreRefusesDamage cuts and changes a snapshot anywhere: each is an error that leaves the
// store unchanged.
func TestRestoreRefusesDamage(t *testing.T) {
	data := snapshotOf(t, fullWorld(t).store.View())
	w := newWorld(t)
	w.must(op("mine", 1, w.load("p", Policy{Limit: 9})))
	before := w.bytes()
	for n := range data {
		err := w.store.Restore(bytes.NewReader(data[:n]))
		if err == nil || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("%d of %d bytes: %v", n, len(data), err)
		}
		for _, bit := range []byte{1, 0x80} {
			bad := bytes.Clone(data)
			bad[n] ^= bit
			if err := w.store.Restore(bytes.NewReader(bad)); err == nil {
				t.Fatalf("byte %d is wrong, and the snapshot was restored", n)
			}
		}
	}
	check(t, "the store as it was", bytes.Equal(w.bytes(), before), true)
	err := w.store.Restore(strings.NewReader("something else"))
	check(t, "message", err.Error(), `restore accounts: record 0: begins with "somethi", not with "\x00acct1\n": not a snapshot of accounts`)
}

// TestRestoreChecksRecords checks that impossible records with a correct checksum are errors as
// well.
func TestRestoreChecksRecords(t *testing.T) {
	key := func(name string) []byte { return []byte(testID(name).key()) }
	account := func(a *raftlogv1.StoredAccount) *raftlogv1.AccountRecord {
		return &raftlogv1.AccountRecord{Record: &raftlogv1.AccountRecord_Account{Account: a}}
	}
	tx := func(x *raftlogv1.StoredTransaction, parts ...*raftlogv1.StoredPart) *raftlogv1.AccountRecord {
		for _, p := range parts {
			p.Hash = make([]byte, 32)
		}
		if len(parts) > 0 {
			x.RequestId, x.Hash, x.Accounts, x.More = parts[0].RequestId, parts[0].Hash, parts[0].Accounts, parts[1:]
		}
		return &raftlogv1.AccountRecord{Record: &raftlogv1.AccountRecord_Transaction{Transaction: x}}
	}
	ended := func(id []byte) *raftlogv1.AccountRecord {
		return &raftlogv1.AccountRecord{Record: &raftlogv1.AccountRecord_Ended{Ended: &raftlogv1.StoredEnded{Tx: id}}}
	}
	holding := func(names ...string) *raftlogv1.StoredPart {
		p := &raftlogv1.StoredPart{}
		for _, name := range names {
			p.Accounts = append(p.Accounts, &raftlogv1.StoredAccount{Key: key(name)})
		}
		return p
	}
	one, two := make([]byte, 16), bytes.Repeat([]byte{1}, 16)
	for want, records := range map[string][]*raftlogv1.AccountRecord{
		"":                               {account(&raftlogv1.StoredAccount{Key: key("a")}), account(&raftlogv1.StoredAccount{Key: key("b")}), ended(one), ended(two)},
		"is out of order":                {account(&raftlogv1.StoredAccount{Key: key("b")}), account(&raftlogv1.StoredAccount{Key: key("a")})},
		"\" is out of order":             {account(&raftlogv1.StoredAccount{Key: key("a")}), account(&raftlogv1.StoredAccount{Key: key("a")})},
		"has not six parts":              {account(&raftlogv1.StoredAccount{Key: []byte("a\x00b")})},
		"must not contain \"~\"":         {account(&raftlogv1.StoredAccount{Key: key("a~")})},
		"policy 1 of 0":                  {account(&raftlogv1.StoredAccount{Key: key("a"), Policy: 1})},
		"at most 9007199254740991":       {account(&raftlogv1.StoredAccount{Key: key("a"), Balance: Most + 1})},
		"version 1, of 0 changes":        {account(&raftlogv1.StoredAccount{Key: key("a"), Version: 1})},
		"its history cannot be read":     {account(&raftlogv1.StoredAccount{Key: key("a"), History: []byte{1}})},
		"out of order":                   {ended(two), ended(one)},
		"tx: 3 bytes; 16":                {ended([]byte("abc"))},
		"decided outside its home range": {tx(&raftlogv1.StoredTransaction{Tx: one, Decided: true})},
		"duplicate account":              {tx(&raftlogv1.StoredTransaction{Tx: one}, holding("a", "a"))},
		"is held by another": {
			tx(&raftlogv1.StoredTransaction{Tx: one}, holding("a"), holding("a")), tx(&raftlogv1.StoredTransaction{Tx: two}, holding("a")),
		},
		"request \"r\" is held by another": {
			tx(&raftlogv1.StoredTransaction{Tx: one}, &raftlogv1.StoredPart{RequestId: "r"}), tx(&raftlogv1.StoredTransaction{Tx: two}, &raftlogv1.StoredPart{RequestId: "r"}),
		},
		"has a kind that this node does not know": {{}},
	} {
		var b bytes.Buffer
		w := &recordWriter{w: bufio.NewWriter(&b)}
		w.bytes([]byte(snapshotMagic))
		w.message(&raftlogv1.AccountSnapshotHeader{Version: snapshotVersion})
		for _, r := range records {
			w.message(r)
		}
		if err := w.w.Flush(); err != nil || w.err != nil {
			t.Fatal(err, w.err)
		}
		err := New(Bounds{}).Restore(bytes.NewReader(sealed(b.Bytes())))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestWriteFails checks that Write returns an error of the writer.
func TestWriteFails(t *testing.T) {
	r, wr := io.Pipe()
	_ = r.CloseWithError(errors.New("disk full"))
	err := fullWorld(t).store.View().Write(wr)
	check(t, "message", err.Error(), "write accounts: disk full")
}
