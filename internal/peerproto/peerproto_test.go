package peerproto

import (
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/filltest"
	"github.com/quorate/quorate/internal/quota"
)

func TestReport(t *testing.T) {
	want := filltest.Filled[quota.Report](t)
	for i := range want.Entries {
		want.Entries[i].Ref = 0 // messages name keys
	}
	got := DecodeReport(want.From, filltest.OverWire(t, EncodeReport(&want), &peerv1.Report{}))
	if !reflect.DeepEqual(got, want) {
		t.Errorf("after the wire:\n%+v\nbefore:\n%+v", got, want)
	}
	want.Entries[0].Learn, want.Full = nil, false
	got = DecodeReport(want.From, filltest.OverWire(t, EncodeReport(&want), &peerv1.Report{}))
	if got.Entries[0].Learn != nil || got.Full || !reflect.DeepEqual(got, want) {
		t.Errorf("without learn:\n%+v\nbefore:\n%+v", got, want)
	}
}

func TestGrant(t *testing.T) {
	want := filltest.Filled[quota.Grant](t)
	want.Incarnation = 0
	for i := range want.Entries {
		e := &want.Entries[i]
		e.Line, e.Ref, e.Unknown = 0, 0, false // messages name keys
		e.Announced = false                    // clients receive no announcements
	}
	got := DecodeGrant(want.From, want.To, filltest.OverWire(t, EncodeGrant(&want), &peerv1.Grant{}))
	if !reflect.DeepEqual(got, want) {
		t.Errorf("after the wire:\n%+v\nbefore:\n%+v", got, want)
	}
}

// TestNegative checks that decoding drops negative values of a peer's Learn, except in its level.
func TestNegative(t *testing.T) {
	e := decodeReportEntry(&peerv1.ReportEntry{Learn: &peerv1.Learn{Level: -1, AgeNanos: -1, Rate: -1, Cap: -1, LeaseLeftNanos: -1}})
	if want := (quota.Learn{Level: -1}); *e.Learn != want {
		t.Errorf("got %+v, want %+v", *e.Learn, want)
	}
}

// aReport returns a report that a client may send.
func aReport() *peerv1.Report {
	return &peerv1.Report{Term: 1, Seq: 1, Incarnation: 1, Entries: []*peerv1.ReportEntry{{
		Namespace: "web", Limit: "login", Key: "alice", Epoch: 1, Used: int64(quota.Most), Learn: &peerv1.Learn{Level: -int64(quota.Most)},
	}}}
}

// TestParseReport breaks a valid report in one place each time.
func TestParseReport(t *testing.T) {
	type report = peerv1.Report
	for _, c := range []struct {
		want string // "" is valid
		bend func(r *report, e *peerv1.ReportEntry)
	}{
		{"", func(*report, *peerv1.ReportEntry) {}},
		{"", func(r *report, _ *peerv1.ReportEntry) { r.Entries, r.Full = nil, true }},
		{"", func(_ *report, e *peerv1.ReportEntry) { e.Limit = "login#2" }},
		{"", func(_ *report, e *peerv1.ReportEntry) { e.Limit = "login#floor" }},
		{"", func(_ *report, e *peerv1.ReportEntry) { e.Limit = quota.Template }},
		{"", func(_ *report, e *peerv1.ReportEntry) {
			e.Namespace, e.Limit = quota.Global.Namespace, quota.Global.Limit
		}},
		{"entries: 4097; at most 4096", func(r *report, e *peerv1.ReportEntry) {
			for range MaxEntries {
				r.Entries = append(r.Entries, e)
			}
		}},
		{"range: 1;", func(r *report, _ *peerv1.ReportEntry) { r.Range = 1 }},
		{"seq: 0;", func(r *report, _ *peerv1.ReportEntry) { r.Seq = 0 }},
		{"term: 0;", func(r *report, _ *peerv1.ReportEntry) { r.Term = 0 }},
		{"incarnation: 0;", func(r *report, _ *peerv1.ReportEntry) { r.Incarnation = 0 }},
		{"age_nanos: -1", func(r *report, _ *peerv1.ReportEntry) { r.AgeNanos = -1 }},
		{"entries[0].epoch: 0;", func(_ *report, e *peerv1.ReportEntry) { e.Epoch = 0 }},
		{"entries[0].life: 7;", func(_ *report, e *peerv1.ReportEntry) { e.Life = 7 }},
		{"entries[0].namespace: \"we b\"", func(_ *report, e *peerv1.ReportEntry) { e.Namespace = "we b" }},
		{"entries[0].namespace: \"@global\"", func(_ *report, e *peerv1.ReportEntry) { e.Namespace = "@global" }},
		{"entries[0].limit: \"@inline.5\"", func(_ *report, e *peerv1.ReportEntry) { e.Limit = "@inline.5" }},
		{"entries[0].limit: \"login#1\"", func(_ *report, e *peerv1.ReportEntry) { e.Limit = "login#1" }},
		{"entries[0].limit: \"login#17\"", func(_ *report, e *peerv1.ReportEntry) { e.Limit = "login#17" }},
		{"entries[0].limit: \"login#02\"", func(_ *report, e *peerv1.ReportEntry) { e.Limit = "login#02" }},
		{"entries[0].limit: \"login#\"", func(_ *report, e *peerv1.ReportEntry) { e.Limit = "login#" }},
		{"entries[0].key: is 0 bytes", func(_ *report, e *peerv1.ReportEntry) { e.Key = "" }},
		{"entries[0].key: is 1154 bytes", func(_ *report, e *peerv1.ReportEntry) { e.Key = strings.Repeat("k", MaxKeyLen+1) }},
		{"entries[0].used: 4398046511104000001;", func(_ *report, e *peerv1.ReportEntry) { e.Used++ }},
		{"entries[0].overdrawn: -1;", func(_ *report, e *peerv1.ReportEntry) { e.Overdrawn = -1 }},
		{"entries[0].refused: -1;", func(_ *report, e *peerv1.ReportEntry) { e.Refused = -1 }},
		{"entries[0].held: -1;", func(_ *report, e *peerv1.ReportEntry) { e.Held = -1 }},
		{"entries[0].want: -1;", func(_ *report, e *peerv1.ReportEntry) { e.Want = -1 }},
		{"entries[0].unreported: -1;", func(_ *report, e *peerv1.ReportEntry) { e.Unreported = -1 }},
		{"entries[0].refunded: -1;", func(_ *report, e *peerv1.ReportEntry) { e.Refunded = -1 }},
		{"entries[0].in_flight: -1;", func(_ *report, e *peerv1.ReportEntry) { e.InFlight = -1 }},
		{"entries[0].before: -1;", func(_ *report, e *peerv1.ReportEntry) { e.Before = -1 }},
		{"entries[0].charged: -1;", func(_ *report, e *peerv1.ReportEntry) { e.Charged = -1 }},
		{"entries[0].alone: -1;", func(_ *report, e *peerv1.ReportEntry) { e.Alone = -1 }},
		{"entries[0].saved: -1;", func(_ *report, e *peerv1.ReportEntry) { e.Saved = -1 }},
		{"entries[0].returned: -1;", func(_ *report, e *peerv1.ReportEntry) { e.Returned = -1 }},
		{"entries[0].accrued_to: -1", func(_ *report, e *peerv1.ReportEntry) { e.AccruedTo = -1 }},
		{"entries[0].window: -1", func(_ *report, e *peerv1.ReportEntry) { e.Window = -1 }},
		{"entries[0].abandoned: 65;", func(_ *report, e *peerv1.ReportEntry) { e.Cancelled = make([]uint64, quota.MaxCancelled+1) }},
		{"entries[0].learn.level: ", func(_ *report, e *peerv1.ReportEntry) { e.Learn.Level-- }},
		{"entries[0].learn.rate: -1;", func(_ *report, e *peerv1.ReportEntry) { e.Learn.Rate = -1 }},
		{"entries[0].learn.cap: -1;", func(_ *report, e *peerv1.ReportEntry) { e.Learn.Cap = -1 }},
		{"entries[0].learn.window_end: -1", func(_ *report, e *peerv1.ReportEntry) { e.Learn.WindowEnd = -1 }},
	} {
		m := aReport()
		c.bend(m, m.Entries[0])
		got, err := ParseReport("svc-1", m)
		if c.want == "" {
			if err != nil || got.From != "svc-1" || len(got.Entries) != len(m.Entries) {
				t.Errorf("%+v: %v", m, err)
			}
			continue
		}
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("got %v, want %s...", err, c.want)
		}
	}
	if _, err := ParseReport("svc-1", nil); err == nil {
		t.Error("a report that is missing was taken")
	}
}

func TestParseGrant(t *testing.T) {
	type grant = peerv1.Grant
	for _, c := range []struct {
		want string // "" is valid
		bend func(g *grant, e *peerv1.GrantEntry)
	}{
		{"", func(*grant, *peerv1.GrantEntry) {}},
		{"", func(g *grant, _ *peerv1.GrantEntry) { g.Entries = nil }},
		{"", func(_ *grant, e *peerv1.GrantEntry) { e.Level = -int64(quota.Most) - 1 }},
		{"range: 3;", func(g *grant, _ *peerv1.GrantEntry) { g.Range = 3 }},
		{"entries: 4097;", func(g *grant, e *peerv1.GrantEntry) {
			for range MaxEntries {
				g.Entries = append(g.Entries, e)
			}
		}},
		{"entries[0].key: ", func(_ *grant, e *peerv1.GrantEntry) { e.Key = "" }},
		{"entries[0].tokens: -1;", func(_ *grant, e *peerv1.GrantEntry) { e.Tokens = -1 }},
		{"entries[0].rate: -1;", func(_ *grant, e *peerv1.GrantEntry) { e.Rate = -1 }},
		{"entries[0].cap: -1;", func(_ *grant, e *peerv1.GrantEntry) { e.Cap = -1 }},
		{"entries[0].burst: -1;", func(_ *grant, e *peerv1.GrantEntry) { e.Burst = -1 }},
		{"entries[0].saved: -1;", func(_ *grant, e *peerv1.GrantEntry) { e.Saved = -1 }},
		{"entries[0].lease_nanos: -1", func(_ *grant, e *peerv1.GrantEntry) { e.LeaseNanos = -1 }},
		{"entries[0].again_nanos: -1", func(_ *grant, e *peerv1.GrantEntry) { e.AgainNanos = -1 }},
	} {
		m := &grant{Term: 1, At: 1, Entries: []*peerv1.GrantEntry{{Namespace: "web", Limit: "login", Key: "alice", Epoch: 1, Tokens: 5}}}
		c.bend(m, m.Entries[0])
		got, err := ParseGrant("n1", "svc-1", m)
		if c.want == "" {
			if err != nil || got.To != "svc-1" || got.From != "n1" || len(got.Entries) != len(m.Entries) {
				t.Errorf("%+v: %v", m, err)
			}
			continue
		}
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("got %v, want %s...", err, c.want)
		}
	}
	if _, err := ParseGrant("n1", "svc-1", nil); err == nil {
		t.Error("a grant that is missing was taken")
	}
}

// FuzzParse checks that no input panics, and that accepted messages are within bounds and survive
// another encoding.
func FuzzParse(f *testing.F) {
	good, _ := proto.Marshal(aReport())
	f.Add(good)
	f.Fuzz(func(t *testing.T, data []byte) {
		var m peerv1.Report
		if proto.Unmarshal(data, &m) == nil {
			if r, err := ParseReport("c", &m); err == nil {
				for _, e := range r.Entries {
					if e.Used < 0 || e.Overdrawn < 0 || e.Used+e.Overdrawn < 0 || e.Used > quota.Most {
						t.Fatalf("took %+v", e)
					}
				}
				again, err := ParseReport("c", EncodeReport(&r))
				if err != nil || !reflect.DeepEqual(again, r) {
					t.Fatalf("%+v\nagain, %v:\n%+v", r, err, again)
				}
			}
		}
		var g peerv1.Grant
		if proto.Unmarshal(data, &g) == nil {
			if r, err := ParseGrant("n", "c", &g); err == nil {
				again, err := ParseGrant("n", "c", EncodeGrant(&r))
				if err != nil || !reflect.DeepEqual(again, r) {
					t.Fatalf("%+v\nagain, %v:\n%+v", r, err, again)
				}
			}
		}
	})
}
