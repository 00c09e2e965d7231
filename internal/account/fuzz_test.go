package account

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"reflect"
	"testing"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
)

// FuzzDecodeBatch checks that bytes are an error, or a batch that can be applied and that survives
// another encoding.
func FuzzDecodeBatch(f *testing.F) {
	w := fullWorld(f)
	id := TxID{9}
	for _, c := range []Command{
		{Apply: w.request("user:me", "r9", op("a", 1, testRef("p")), op("b", -1, testRef("none")).to(Limit).with(5))},
		{Begin: &Begin{Tx: id, Home: 3, Others: nil, Part: *w.request("", "", op("c", 1, nil)), More: []Request{*w.request("me", "2", op("c", 1, nil))}}},
		{Prepare: &Prepare{Tx: Tx{ID: id, Home: 3}, Part: *w.request("", "", op("c", 1, nil)), More: []Request{*w.request("me", "2", op("c", 1, nil))}}},
		{Decide: &Decide{Tx: id, Commit: true, Results: []Result{{New: 1, Previous: 2, Adjusted: 3, Created: true}}, More: [][]Result{{{New: 1}}}}},
		{Finish: &Finish{Tx: id, Commit: true}},
		{Forget: &id},
		{Collect: &Collect{Max: 9}},
	} {
		data, err := EncodeBatch(w.now, []Command{c, c})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	snapshot := snapshotOf(f, w.store.View())
	f.Fuzz(func(t *testing.T, data []byte) {
		at, commands, err := DecodeBatch(data)
		if err != nil {
			return
		}
		again, err := EncodeBatch(at, commands)
		if err != nil {
			t.Fatal(err)
		}
		at2, commands2, err := DecodeBatch(again)
		if err != nil || at2 != at || !reflect.DeepEqual(commands, commands2) {
			t.Fatalf("after another encoding: %v\n%+v\n%+v", err, commands, commands2)
		}
		s := restored(t, snapshot)
		for i := range commands {
			s.Apply(at, &commands[i])
		}
		restored(t, snapshotOf(t, s.View())) // a snapshot holds whatever was applied
		checkIndexes(t, s)
	})
}

// FuzzRestore checks that bytes are an error that changes nothing, or give a working store.
func FuzzRestore(f *testing.F) {
	w := fullWorld(f)
	data := snapshotOf(f, w.store.View())
	f.Add(data)
	f.Add(data[:len(data)/2])
	f.Add(snapshotOf(f, New(Bounds{}).View()))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := New(Bounds{})
		s.Apply(1, &Command{Finish: &Finish{Tx: TxID{77}}})
		before := snapshotOf(t, s.View())
		err := s.Restore(bytes.NewReader(data))
		if err != nil {
			err = s.Restore(bytes.NewReader(sealed(data))) // past the checksum
		}
		if err != nil {
			check(t, "as it was", bytes.Equal(snapshotOf(t, s.View()), before), true)
			return
		}
		for _, p := range s.View().Pending(10) {
			s.Apply(1, &Command{Finish: &Finish{Tx: p.Tx.ID, Commit: true}})
			s.Apply(1, &Command{Decide: &Decide{Tx: p.Tx.ID, Commit: true}})
		}
		checkIndexes(t, s)
		one := snapshotOf(t, s.View())
		check(t, "written again", bytes.Equal(snapshotOf(t, restored(t, one).View()), one), true)
	})
}

// sealed gives the records of a snapshot a matching end.
func sealed(data []byte) []byte {
	var end raftlogv1.AccountEnd
	at := len(snapshotMagic)
	for first := true; at < len(data); first = false {
		n, size := binary.Uvarint(data[at:])
		if size <= 0 || n > uint64(len(data)-at-size) {
			break
		}
		var rec raftlogv1.AccountRecord
		if !first {
			if unmarshal(data[at+size:at+size+int(n)], &rec) != nil || rec.GetEnd() != nil {
				break
			}
		}
		at += size + int(n)
		switch {
		case rec.GetPolicy() != nil:
			end.Policies++
		case rec.GetAccount() != nil:
			end.Accounts++
		case rec.GetApplied() != nil:
			end.Applied++
		case rec.GetTransaction() != nil:
			end.Transactions++
		case rec.GetEnded() != nil:
			end.Ended++
		}
	}
	body := bytes.Clone(data[:min(at, len(data))])
	end.Checksum = crc32.Checksum(body, castagnoli)
	m := &raftlogv1.AccountRecord{Record: &raftlogv1.AccountRecord_End{End: &end}}
	out, _ := appendMessage(binary.AppendUvarint(body, uint64(sizeOf(m))), m)
	return out
}

// FuzzValidate checks that a valid id has one key whose parts parse back, and that every error
// names a field.
func FuzzValidate(f *testing.F) {
	f.Add("cv", "r", "", "@a|b", "n", "t", int64(3), uint32(1), byte(2))
	f.Add("a~b", "\x00", "\x7f", "\xff", "", "\u0085", int64(-1<<62), uint32(3), byte(9))
	f.Fuzz(func(t *testing.T, app, realm, identity, namespace, name, resource string, delta int64, options uint32, to byte) {
		o := Op{
			Account: ID{App: app, Realm: realm, Identity: identity, Namespace: namespace, Name: name, Resource: resource},
			Delta:   delta, Options: OpOptions(options), RelativeTo: RelativeTo(to),
		}
		r := Request{Ops: []Op{o}}
		if err := r.Validate(); err != nil {
			if !bytes.HasPrefix([]byte(err.Error()), []byte("ops[0].")) {
				t.Errorf("%q names no field", err)
			}
		} else {
			back, ok := parseKey(o.Account.key())
			check(t, "back", back, o.Account)
			check(t, "parsed", ok, true)
		}
		s := New(Bounds{})
		s.Apply(0, &Command{Apply: &r})
		restored(t, snapshotOf(t, s.View()))
		s.View().List(0, Filter{App: app, Realm: realm, Identity: &identity, NamePrefix: name}, o.Account, 3)
	})
}
