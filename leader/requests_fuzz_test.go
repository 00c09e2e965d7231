package leader

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// FuzzDecideRequests has two members ask over a network that loses, repeats, delays and reorders
// decide requests, answers and reports: the leader has booked the answers that the members received
// and those that they do not know yet.
func FuzzDecideRequests(f *testing.F) {
	for kind := range uint8(2 * len(fuzzed)) {
		f.Add(kind, []byte("questions and answers, some of them lost, and some of them late, and reports of both"))
	}
	f.Fuzz(func(t *testing.T, kind uint8, data []byte) { playQuestions(t, kind, &source{data: data}) })
}

// TestDecideRequests runs FuzzDecideRequests with random inputs from seeds.
func TestDecideRequests(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 9))
		data := make([]byte, 2000)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		playQuestions(t, uint8(seed), &source{data: data})
	}
}

// askingMember is a member that asks, with its view of each of its decide requests.
type askingMember struct {
	id        quota.NodeID
	seq       quota.Seq
	open      []quota.Ask // asked, neither answered nor cancelled
	abandoned []quota.Seq // not acknowledged
	told      quota.Units // admitted by answers that arrived
}

// questionGame is a random test of the decide requests about one key.
type questionGame struct {
	t       *testing.T
	l       *Ledger
	now     quota.Time
	names   quota.Seq
	booked  map[quota.Seq]quota.Units // by the first answer
	members [2]askingMember
	// In transit. A message that is taken out may be put back, so that it is repeated.
	asks    []quota.Ask
	reports []quota.Report
	answers []struct {
		ask quota.Ask
		is  quota.Answer
	}
}

var examKey = quota.Key{LimitName: quota.LimitName{Namespace: "n", Limit: "l"}, Key: "k"}

func playQuestions(t *testing.T, kind uint8, s *source) {
	t.Helper()
	limit := fuzzLimit(kind | 128) // the leader decides
	if limit.Kind == quota.Concurrency || limit.Burst == 0 || limit.Burst == quota.MaxTokens {
		return // the leader decides no requests in flight
	}
	limits, err := quota.NewLimits(1, []quota.Limit{limit})
	if err != nil {
		t.Fatal(err)
	}
	x := &questionGame{t: t, now: quota.Time(time.Hour), booked: map[quota.Seq]quota.Units{}, members: [2]askingMember{{id: "a"}, {id: "b"}}}
	x.l = New(Config{}, 0, 1, "a", nil, limits, nil, x.now)
	for len(s.data) > 0 {
		x.now = x.now.Add(time.Duration(s.byte()/8) * time.Millisecond)
		x.step(s, s.byte())
		x.check()
	}
	x.settle()
}

// step performs one random event.
func (x *questionGame) step(s *source, b byte) {
	packAll(x.t, x.l)
	m := &x.members[b%2]
	switch {
	case b < 80:
		x.names++
		q := quota.Ask{From: m.id, Incarnation: 1, ID: x.names, Key: examKey, Cost: quota.Units(s.byte()%8) * quota.Token / 2, MaxWait: time.Second}
		m.open, x.asks = append(m.open, q), append(x.asks, q)
	case b < 160 && len(x.asks) > 0:
		q := pick(s, &x.asks)
		x.ask(q)
	case b < 200 && len(x.answers) > 0:
		an := pick(s, &x.answers)
		x.tell(an.ask, an.is)
	case b < 220 && len(m.open) > 0:
		m.abandoned, m.open = append(m.abandoned, m.open[0].ID), m.open[1:]
	case b < 235:
		m.seq++
		x.reports = append(x.reports, quota.Report{
			Term: 1, From: m.id, Incarnation: 1, Seq: m.seq,
			Entries: []quota.ReportEntry{{Key: examKey, Epoch: 1, Cancelled: append([]quota.Seq(nil), m.abandoned[:min(len(m.abandoned), quota.MaxCancelled)]...)}},
		})
	case len(x.reports) > 0:
		x.report(pick(s, &x.reports))
	}
}

// ask delivers a decide request.
func (x *questionGame) ask(q quota.Ask) {
	x.t.Helper()
	var before, after quota.Units
	if b := x.l.bucket(examKey); b != nil {
		before = b.admitted
	}
	is := x.l.Ask(x.now, []quota.Ask{q})[0]
	if b := x.l.bucket(examKey); b != nil {
		after = b.admitted
	}
	was, again := x.booked[q.ID]
	switch booked := after - before; {
	case again && booked != 0:
		x.t.Fatalf("%+v: %d booked before, and now %d", q, was, booked)
	case !again && is.Allowed != (booked == q.Cost) && q.Cost > 0:
		x.t.Fatalf("%+v: %d booked for the answer %+v", q, booked, is)
	case !again:
		x.booked[q.ID] = booked
	}
	x.answers = append(x.answers, struct {
		ask quota.Ask
		is  quota.Answer
	}{q, is})
}

// pick takes a message in transit: mostly for good, sometimes leaving a copy.
func pick[T any](s *source, from *[]T) T {
	i := int(s.byte()) % len(*from)
	v := (*from)[i]
	if s.byte() < 200 {
		*from = append((*from)[:i], (*from)[i+1:]...)
	}
	return v
}

// tell delivers an answer to a member, if it still waits for it.
func (x *questionGame) tell(q quota.Ask, a quota.Answer) {
	for i := range x.members {
		m := &x.members[i]
		for j := range m.open {
			if m.open[j].ID == q.ID {
				m.open = append(m.open[:j], m.open[j+1:]...)
				if a.Allowed {
					m.told += x.booked[q.ID]
				}
				return
			}
		}
	}
}

// report delivers a report. Its answer is always lost, except at the end.
func (x *questionGame) report(r quota.Report) { _, _ = x.l.Report(x.now, r) }

// check compares the ledger with the known answers. For a decide request that is neither answered
// nor cancelled, or whose cancellation the leader has not received, the leader may have booked
// anything up to its cost.
func (x *questionGame) check() {
	x.t.Helper()
	checkBooks(x.t, x.l, x.now)
	b := x.l.bucket(examKey)
	if b == nil {
		return
	}
	booked, unknown := x.known()
	if b.admitted < booked || b.admitted > booked+unknown {
		x.t.Fatalf("booked %d; the members were told of %d, and do not know of %d more", b.admitted, booked, unknown)
	}
}

func (x *questionGame) known() (told, unknown quota.Units) {
	for i := range x.members {
		m := &x.members[i]
		told += m.told
		for _, q := range m.open {
			unknown += q.Cost
		}
		s := x.l.requesters[m.id]
		for _, id := range m.abandoned {
			if s != nil {
				unknown += s.known[id].admitted
			}
		}
	}
	return told, unknown
}

// settle cancels the open requests, and delivers everything in an unfavourable order.
func (x *questionGame) settle() {
	x.t.Helper()
	for i := range x.members {
		m := &x.members[i]
		for _, q := range m.open {
			m.abandoned = append(m.abandoned, q.ID)
		}
		m.open = nil
		for len(m.abandoned) > 0 {
			n := min(len(m.abandoned), quota.MaxCancelled)
			m.seq++
			x.report(quota.Report{Term: 1, From: m.id, Incarnation: 1, Seq: m.seq, Entries: []quota.ReportEntry{{Key: examKey, Epoch: 1, Cancelled: m.abandoned[:n]}}})
			m.abandoned = m.abandoned[n:]
		}
	}
	x.l.Ask(x.now, x.asks) // late
	x.check()
}

// TestCancelled checks the level after a decide request was cancelled.
func TestCancelled(t *testing.T) {
	const token = quota.Token
	type at struct {
		ms   int
		do   string // ask, abandon, reset or resize
		id   quota.Seq
		cost quota.Units
		want quota.Units // level afterwards
	}
	bucket := quota.Tier{Rate: quota.Rate{Tokens: 10, Per: time.Second}, Burst: 10}
	for _, tc := range []struct {
		name  string
		tier  quota.Tier
		steps []at
	}{
		{"comes back once", bucket, []at{{0, "ask", 1, 8, 2}, {0, "abandon", 1, 0, 10}, {0, "abandon", 1, 0, 10}, {0, "ask", 2, 4, 6}, {0, "abandon", 1, 0, 6}}},
		{"before its question", bucket, []at{{0, "abandon", 1, 0, 10}, {0, "ask", 1, 8, 10}}},
		{"repeated", bucket, []at{{0, "ask", 1, 8, 2}, {0, "ask", 1, 8, 2}}},
		{"refused", bucket, []at{{0, "ask", 1, 8, 2}, {0, "ask", 2, 8, 2}, {0, "abandon", 2, 0, 2}}},
		// At 300 ms the level was 9; 2 of the 4 had overflowed.
		{"refilled meanwhile", bucket, []at{{0, "ask", 1, 4, 6}, {200, "ask", 2, 0, 8}, {200, "ask", 3, 8, 0}, {200, "abandon", 1, 0, 2}}},
		{"full meanwhile", bucket, []at{{0, "ask", 1, 4, 6}, {400, "ask", 2, 10, 0}, {400, "abandon", 1, 0, 0}}},
		{"two, and room for one", bucket, []at{{0, "ask", 1, 2, 8}, {0, "ask", 2, 2, 6}, {100, "ask", 3, 7, 0}, {100, "abandon", 1, 0, 2}, {100, "abandon", 2, 0, 3}}},
		{"a refund", bucket, []at{{0, "ask", 1, 8, 2}, {0, "ask", 2, -4, 6}, {0, "abandon", 2, 0, 2}}},
		{"same window", quota.Window(quota.FixedWindow, 10, time.Second), []at{{0, "ask", 1, 8, 2}, {900, "abandon", 1, 0, 10}}},
		{"next window", quota.Window(quota.FixedWindow, 10, time.Second), []at{{0, "ask", 1, 8, 2}, {1000, "ask", 2, 5, 5}, {1000, "abandon", 1, 0, 5}}},
		{"same window, resized", quota.Window(quota.FixedWindow, 10, time.Second), []at{{0, "ask", 1, 8, 2}, {0, "resize", 0, 20, 12}, {900, "abandon", 1, 0, 20}}},
		{"resized bucket", quota.Tier{Rate: quota.Rate{Tokens: 1, Per: time.Hour}, Burst: 10}, []at{{0, "ask", 1, 8, 2}, {0, "resize", 0, 20, 2}, {0, "abandon", 1, 0, 2}}},
		{"next sliding window", quota.Window(quota.SlidingWindow, 10, time.Second), []at{{0, "ask", 1, 8, 2}, {1500, "abandon", 1, 0, 6}}},
		{"reset meanwhile", bucket, []at{{0, "ask", 1, 8, 2}, {0, "reset", 0, 0, 10}, {0, "ask", 2, 5, 5}, {0, "abandon", 1, 0, 5}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := quota.Limit{LimitName: examKey.LimitName, Decide: quota.AtLeader}
			l.SetFirst(tc.tier)
			limits, err := quota.NewLimits(1, []quota.Limit{l})
			if err != nil {
				t.Fatal(err)
			}
			start := quota.Time(time.Hour)
			led := New(Config{}, 0, 1, "a", nil, limits, nil, start)
			seq := quota.Seq(0)
			for i, st := range tc.steps {
				now := start.Add(time.Duration(st.ms) * time.Millisecond)
				switch st.do {
				case "ask":
					led.Ask(now, []quota.Ask{{From: "b", Incarnation: 1, ID: st.id, Key: examKey, Cost: st.cost * token}})
				case "reset":
					led.Reset(now, examKey)
				case "resize":
					l := limits.All()[0]
					l.Burst = int64(st.cost)
					if l.Kind.Windowed() {
						l.Rate.Tokens = l.Burst
					}
					if limits, err = quota.NewLimits(limits.Version+1, []quota.Limit{l}); err != nil {
						t.Fatal(err)
					}
					led.SetLimits(now, limits)
				case "abandon":
					seq++
					r := quota.Report{Term: 1, From: "b", Incarnation: 1, Seq: seq, Entries: []quota.ReportEntry{{Key: examKey, Epoch: 1, Cancelled: []quota.Seq{st.id}}}}
					if _, err := led.Report(now, r); err != nil {
						t.Fatal(err)
					}
				}
				b := led.bucket(examKey)
				b.advance(now)
				if got := b.level(); got != st.want*token {
					t.Errorf("step %d, %s %d: level %v tokens, want %d", i, st.do, st.id, float64(got)/float64(token), st.want)
				}
			}
		})
	}
}

// TestDecideRequestsAreBounded: the ledger remembers the newest decide requests of a member, and
// none of an earlier incarnation.
func TestDecideRequestsAreBounded(t *testing.T) {
	l := quota.Limit{LimitName: examKey.LimitName, Decide: quota.AtLeader}
	l.SetFirst(quota.Tier{Rate: quota.Rate{Tokens: 1, Per: time.Hour}, Burst: 10 * maxRequests})
	limits, err := quota.NewLimits(1, []quota.Limit{l})
	if err != nil {
		t.Fatal(err)
	}
	now := quota.Time(time.Hour)
	led := New(Config{}, 0, 1, "a", nil, limits, nil, now)
	ask := func(inc quota.Incarnation, id quota.Seq) string {
		a := led.Ask(now, []quota.Ask{{From: "b", Incarnation: inc, ID: id, Key: examKey, Cost: quota.Token}})[0]
		return fmt.Sprint(a.Allowed, " ", led.buckets.find(examKey).admitted.Tokens())
	}
	for id := range quota.Seq(maxRequests + 1) {
		ask(2, id+1)
	}
	for _, tc := range []struct {
		inc  quota.Incarnation
		id   quota.Seq
		want string
	}{
		{2, maxRequests + 1, "true 4097"},
		{2, 2, "true 4097"},
		{2, 1, "true 4098"}, // forgotten
		{1, 9, "false 4098"},
		{3, 9, "true 4099"}, // another incarnation, another decide request
	} {
		if got := ask(tc.inc, tc.id); got != tc.want {
			t.Errorf("question %d of process %d: %s, want %s", tc.id, tc.inc, got, tc.want)
		}
	}
	if n := len(led.requesters["b"].known); n != 1 {
		t.Errorf("%d questions of process 3 are known, want 1", n)
	}
	led.Sweep(now.Add(keepRequests + time.Second))
	if len(led.requesters) != 0 {
		t.Errorf("after %v still known: %v", keepRequests, led.requesters)
	}
}
