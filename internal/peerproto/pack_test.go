package peerproto

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/internal/filltest"
	"github.com/quorate/quorate/internal/quota"
)

// packedReports returns reports that the packed form carries exactly.
func packedReports(t *testing.T) []*quota.Report {
	named, numbered := filltest.Filled[quota.Report](t), filltest.Filled[quota.Report](t)
	for i := range named.Entries {
		named.Entries[i].Ref = 0
		numbered.Entries[i].Key = quota.Key{}
	}
	named.Entries[1].Key.LimitName = named.Entries[0].Key.LimitName
	numbered.Full, numbered.Parts, numbered.Incarnation = false, 0, numbered.Incarnation+1
	numbered.Entries = append(numbered.Entries, quota.ReportEntry{Ref: 1, Epoch: 2}, quota.ReportEntry{
		Ref: 1<<32 - 1, Epoch: 1 << 63, Used: quota.Most, Held: quota.Most - 1, Overdrawn: quota.Token, Learn: &quota.Learn{Level: -quota.Most},
	})
	same := quota.Report{From: named.From, Range: 5, Term: 6, Seq: 7, Incarnation: numbered.Incarnation, Age: numbered.Age, Entries: []quota.ReportEntry{}}
	return []*quota.Report{&named, &numbered, &same}
}

func TestPackReports(t *testing.T) {
	list := packedReports(t)
	data := PackReports([]byte("before"), list)
	var room Reports
	for range 2 { // the second time with used room
		got, err := room.Unpack(list[0].From, data[len("before"):])
		if err != nil || len(got) != len(list) {
			t.Fatalf("%d reports, %v", len(got), err)
		}
		for i, want := range list {
			want.From = list[0].From
			if !reflect.DeepEqual(got[i], *want) {
				t.Errorf("after the wire:\n%+v\nbefore:\n%+v", got[i], *want)
			}
		}
	}
}

// packedGrants returns grants that the packed form carries exactly.
func packedGrants(t *testing.T) []*quota.Grant {
	answer, push := filltest.Filled[quota.Grant](t), filltest.Filled[quota.Grant](t)
	for i := range answer.Entries {
		e := &answer.Entries[i]
		e.Key, e.Epoch, e.Line = quota.Key{}, 0, uint32(2*i+1)
		push.Entries[i].Line = 0
	}
	e := answer.Entries[1]
	e.Line++
	answer.Entries = append(answer.Entries, e, quota.GrantEntry{Line: e.Line + 7, Ack: e.Ack, Unknown: true})
	push.At, push.Entries[0].Level, push.Entries[0].Free = answer.At-5, -quota.Most, 1-quota.Most
	push.Entries[1].Level, push.Entries[1].Free = 45_678_901, -1
	none := quota.Grant{From: answer.From, To: answer.To, Entries: []quota.GrantEntry{}}
	return []*quota.Grant{&answer, &push, &none}
}

func TestPackGrants(t *testing.T) {
	list := packedGrants(t)
	var room Grants
	for range 2 { // the second time with used room
		got, err := room.Unpack(list[0].From, list[0].To, PackGrants(nil, list))
		if err != nil || len(got) != len(list) {
			t.Fatalf("%d grants, %v", len(got), err)
		}
		for i := range list {
			want := *list[i]
			want.From, want.To = list[0].From, list[0].To
			want.Entries = floored(want.Entries)
			if !reflect.DeepEqual(got[i], want) {
				t.Errorf("after the wire:\n%+v\nbefore:\n%+v", got[i], want)
			}
		}
	}
}

// floored returns the entries with their levels rounded as in packed grants.
func floored(entries []quota.GrantEntry) []quota.GrantEntry {
	floor := func(u quota.Units) quota.Units {
		rest := u % (quota.Token / 1000)
		if rest < 0 {
			rest += quota.Token / 1000
		}
		return u - rest
	}
	out := slices.Clone(entries)
	for i := range out {
		out[i].Level, out[i].Free = floor(out[i].Level), floor(out[i].Free)
	}
	return out
}

// TestBalances checks that grants carry levels rounded down to a thousandth of a token, and whole
// tokens exactly.
func TestBalances(t *testing.T) {
	for have, want := range map[quota.Units]quota.Units{
		0: 0, 1: 0, 999: 0, 1000: 1000, 1999: 1000, -1: -1000, -1000: -1000, -1001: -2000, 45_678_901: 45_678_000,
		7 * quota.Token: 7 * quota.Token, -quota.Token: -quota.Token, quota.Most: quota.Most, 1<<63 - 1: quota.Most,
		-quota.Most: -quota.Most, -1 << 63: -quota.Most, 1 - quota.Most: -quota.Most, quota.Most - 1: quota.Most - 1000,
	} {
		p := packer{}
		p.balance(have)
		u := unpacker{b: p.b}
		if got := u.balance(); u.bad || got != want || u.left() > 0 {
			t.Errorf("%d became %d, want %d", have, got, want)
		}
	}
}

// TestRoughly checks that rough amounts are within a 250th, and take at most two bytes.
func TestRoughly(t *testing.T) {
	for _, want := range []quota.Units{0, 1, 511, 512, 513, 1022, 1023, 1024, 123_456_789, 1<<40 - 1, 1 << 40, quota.Most - 1, quota.Most} {
		p := packer{}
		p.rough(want)
		u := unpacker{b: p.b}
		if got := u.rough(); u.bad || got-want > want/250 || want-got > want/250 || len(p.b) > 2 {
			t.Errorf("%d became %d, in %d bytes", want, got, len(p.b))
		}
	}
}

// TestPackClamps checks that out-of-range amounts are clamped to valid ones.
func TestPackClamps(t *testing.T) {
	r := quota.Report{Range: 1, Term: 1, Seq: 1, Entries: []quota.ReportEntry{{Ref: 1, Used: -1, Held: quota.Most + 1}}}
	var room Reports
	got, err := room.Unpack("", PackReports(nil, []*quota.Report{&r}))
	if err != nil || got[0].Entries[0].Used != 0 || got[0].Entries[0].Held != quota.Most {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestUnpackRefuses(t *testing.T) {
	reports := PackReports(nil, packedReports(t))
	grants := PackGrants(nil, packedGrants(t))
	for n := range reports {
		if got, err := new(Reports).Unpack("", reports[:n]); err == nil {
			t.Fatalf("reports cut off after %d bytes: %+v", n, got)
		}
	}
	for n := range grants {
		if got, err := new(Grants).Unpack("", "", grants[:n]); err == nil {
			t.Fatalf("grants cut off after %d bytes: %+v", n, got)
		}
	}
	if _, err := new(Grants).Unpack("", "", append([]byte{PackedForm + 1}, grants[1:]...)); err == nil {
		t.Error("grants of a form to come were taken")
	}
	for what, data := range map[string][]byte{
		"another form":   append([]byte{PackedForm + 1}, reports[1:]...),
		"more behind it": append(slices.Clip(reports), 0),
		"too many":       {PackedForm, 0, 0xff, 0xff, 0xff, 0x7f},
	} {
		if _, err := new(Reports).Unpack("", data); err == nil {
			t.Errorf("%s was taken", what)
		}
	}
}

// FuzzUnpack checks that no input panics, and that accepted messages are within bounds and survive
// another encoding.
func FuzzUnpack(f *testing.F) {
	f.Add([]byte{PackedForm, 0, 0})
	for _, r := range benchReports(3) {
		f.Add(PackReports(nil, []*quota.Report{r}))
	}
	for _, g := range benchGrants(3) {
		f.Add(PackGrants(nil, []*quota.Grant{g}))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var room, other Reports
		if got, err := room.Unpack("c", data); err == nil {
			var list []*quota.Report
			for i := range got {
				for _, e := range got[i].Entries {
					if e.Used < 0 || e.Used > quota.Most || e.Held < 0 || e.Held > quota.Most || len(e.Cancelled) > quota.MaxCancelled {
						t.Fatalf("took %+v", e)
					}
				}
				list = append(list, &got[i])
			}
			again, err := other.Unpack("c", PackReports(nil, list))
			if err != nil || !reflect.DeepEqual(again, got) {
				t.Fatalf("%+v\nagain, %v:\n%+v", got, err, again)
			}
		}
		var groom, gother Grants
		if got, err := groom.Unpack("n", "c", data); err == nil {
			var list []*quota.Grant
			for i := range got {
				for _, e := range got[i].Entries {
					if max(e.Tokens, e.Others, e.Unseen, e.Level, e.Free) > quota.Most || min(e.Tokens, e.Others, e.Unseen) < 0 {
						t.Fatalf("took %+v", e)
					}
				}
				list = append(list, &got[i])
			}
			again, err := gother.Unpack("n", "c", PackGrants(nil, list))
			if err != nil || !reflect.DeepEqual(again, got) {
				t.Fatalf("%+v\nagain, %v:\n%+v", got, err, again)
			}
		}
	})
}

// benchReports returns a node's reports on n keys in use.
func benchReports(n int) []*quota.Report {
	r := &quota.Report{Range: 3, Term: 7, Seq: 12_345, From: "n1", Incarnation: 1_700_000_000_000_000_000, Age: time.Hour}
	for i := range n {
		e := quota.ReportEntry{
			Key:   quota.Key{LimitName: quota.LimitName{Namespace: "api", Limit: "per_tenant"}, Key: fmt.Sprintf("tenant-%017d", i)},
			Epoch: quota.Seq(20_000 + 3*i), Used: quota.FromTokens(int64(500 + i%100)), Held: 3_456_789, AccruedTo: 1_700_000_000_123_456_789 + quota.Time(i),
			Applied: quota.Seq(200 + i%50), Unreported: quota.FromTokens(3), Ref: uint32(1 + i),
		}
		r.Entries = append(r.Entries, e)
	}
	return []*quota.Report{r}
}

func benchGrants(n int) []*quota.Grant {
	g := &quota.Grant{Range: 3, Term: 7, From: "n2", To: "n1", At: 1_700_000_000_123_456_789, Incarnation: 1_700_000_000_000_000_000}
	for i, e := range benchReports(n)[0].Entries {
		g.Entries = append(g.Entries, quota.GrantEntry{
			Key: e.Key, Epoch: e.Epoch, Seq: e.Applied + 1, Ack: 12_345, Line: uint32(i + 1), Tokens: 1_234_567, Rate: 33_333_333, Cap: 9_123_456,
			Lease: 3 * time.Second, Level: 45_678_901, Others: 61_234_567, Free: 33_456_789, Again: 100 * time.Millisecond,
			Slope: quota.FromTokens(100), Burst: quota.FromTokens(100), Unseen: 3_345_678,
		})
	}
	return []*quota.Grant{g}
}

// BenchmarkReport and BenchmarkGrant measure one way over the wire of 1000 keys, as messages and in
// the packed form.
func BenchmarkReport(b *testing.B) {
	list := benchReports(1000)
	b.Run("packed", func(b *testing.B) {
		var data []byte
		var room Reports
		for b.Loop() {
			data = PackReports(data[:0], list)
			if _, err := room.Unpack("n1", data); err != nil {
				b.Fatal(err)
			}
		}
		perKey(b, len(data))
	})
	b.Run("message", func(b *testing.B) {
		var data []byte
		for b.Loop() {
			m := EncodeReport(list[0])
			data, _ = proto.MarshalOptions{}.MarshalAppend(data[:0], m)
			m.Reset()
			if err := proto.Unmarshal(data, m); err != nil {
				b.Fatal(err)
			}
			DecodeReport("n1", m)
		}
		perKey(b, len(data))
	})
}

func BenchmarkGrant(b *testing.B) {
	list := benchGrants(1000)
	b.Run("packed", func(b *testing.B) {
		var data []byte
		var room Grants
		for b.Loop() {
			data = PackGrants(data[:0], list)
			if _, err := room.Unpack("n2", "n1", data); err != nil {
				b.Fatal(err)
			}
		}
		perKey(b, len(data))
	})
	b.Run("message", func(b *testing.B) {
		var data []byte
		for b.Loop() {
			m := EncodeGrant(list[0])
			data, _ = proto.MarshalOptions{}.MarshalAppend(data[:0], m)
			m.Reset()
			if err := proto.Unmarshal(data, m); err != nil {
				b.Fatal(err)
			}
			DecodeGrant("n2", "n1", m)
		}
		perKey(b, len(data))
	})
}

func perKey(b *testing.B, bytes int) {
	b.ReportMetric(float64(bytes)/1000, "B/key")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/key")
}
