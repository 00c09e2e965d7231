package leader

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// FuzzReports sends reports with any field values, and decide requests, while limits and overrides
// of all kinds change: the ledger never panics, and free + what members can spend + what is in
// flight never exceeds the burst.
func FuzzReports(f *testing.F) {
	for kind := range uint8(2 * len(fuzzed)) {
		f.Add(kind, []byte("anything at all, read as a row of reports and of pauses between them"))
		f.Add(kind, []byte("\x00\xff\xff\xff\xff\xff\xff\xff\x7f\x01\xff\xff\xff\xff\xff\xff\xff\xff"))
	}
	f.Fuzz(func(t *testing.T, kind uint8, data []byte) {
		play(t, kind, &source{data: data})
	})
}

// fuzzed are limits of all kinds.
var fuzzed = []quota.Tier{
	{Rate: quota.Rate{Tokens: 100, Per: time.Second}, Burst: 50},
	quota.Window(quota.FixedWindow, 50, time.Second),
	quota.Window(quota.SlidingWindow, 50, time.Second),
	quota.Window(quota.PeriodicRefill, 50, time.Second),
	quota.Per(50, quota.Calendar{Unit: quota.Minute}),
	{Kind: quota.Concurrency, Burst: 50},
	{Rate: quota.Rate{Tokens: 1, Per: 365 * 24 * time.Hour}, Burst: 1},
	{Rate: quota.Rate{Tokens: 0, Per: time.Second}, Burst: 0},
	quota.Window(quota.FixedWindow, quota.MaxTokens, time.Minute),
}

// fuzzLimit is limit number n, hard if n is odd, with every option of its kind.
func fuzzLimit(n uint8) quota.Limit {
	l := quota.Limit{LimitName: quota.LimitName{Namespace: "n", Limit: "l"}}
	l.SetFirst(fuzzed[int(n/2)%len(fuzzed)])
	switch {
	case n%2 == 1:
		l.Ceiling = quota.Hard
	case n%4 == 0 && l.Kind == quota.TokenBucket:
		l.MaxWait, l.MaxDebt = time.Second, 2*time.Second
	}
	if n >= 128 && l.Kind != quota.Concurrency {
		l.Decide = quota.AtLeader
	}
	return l
}

// TestReports runs FuzzReports with random inputs from seeds.
func TestReports(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 3))
		data := make([]byte, 3000)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		play(t, uint8(seed), &source{data: data})
	}
}

// source reads numbers out of fuzzed bytes; at the end it returns only 0.
type source struct{ data []byte }

func (s *source) byte() byte {
	if len(s.data) == 0 {
		return 0
	}
	b := s.data[0]
	s.data = s.data[1:]
	return b
}

// units returns mostly a few tokens, sometimes any value.
func (s *source) units() quota.Units {
	switch b := s.byte(); {
	case b < 100:
		return 0
	case b < 230:
		return quota.Units(s.byte()) * quota.Token / 4
	default:
		var raw [8]byte
		for i := range raw {
			raw[i] = s.byte()
		}
		return quota.Units(binary.LittleEndian.Uint64(raw[:]))
	}
}

func (s *source) report(term quota.Term) quota.Report {
	r := quota.Report{
		Term: term, From: quota.NodeID([]string{"a", "b", "c"}[s.byte()%3]),
		Incarnation: quota.Incarnation(s.byte() / 100), Full: s.byte()%4 == 0,
		Seq: quota.Seq(s.byte()) + quota.Seq(1000-len(s.data)/20)*4,
	}
	if s.byte() > 250 {
		r.Term++
	}
	e := quota.ReportEntry{
		Key:   quota.Key{LimitName: quota.LimitName{Namespace: "n", Limit: "l"}, Key: "k"},
		Epoch: quota.Seq(s.byte() / 120), Used: s.units(), Overdrawn: s.units(), Refused: s.units(), Held: s.units(),
		AccruedTo: quota.Time(s.units()), Applied: quota.Seq(s.byte() / 8), Want: s.units(), Unreported: s.units(),
		Final: s.byte() > 230,
	}
	if b := s.byte(); b > 60 {
		e.Refunded, e.InFlight, e.Before = s.units(), s.units(), s.units()
		if e.Window = quota.Time(s.units()); b > 128 {
			e.Window = quota.Time(time.Hour).Add(time.Duration(b%8) * time.Second)
		}
	}
	if b := s.byte(); b > 100 {
		e.Saved, e.Returned = s.units(), s.units()
		if b > 230 {
			e.Incarnation = quota.Incarnation(b % 3)
		}
	}
	if s.byte() > 200 {
		e.Learn = &quota.Learn{
			HasLevel: s.byte() > 100, Level: s.units(), Age: time.Duration(s.units()),
			Rate: s.units(), Cap: s.units(), LeaseLeft: time.Duration(s.units()),
		}
	}
	for range s.byte() / 50 {
		e.Cancelled = append(e.Cancelled, quota.Seq(s.byte()/4))
	}
	r.Entries = []quota.ReportEntry{e}
	return r
}

// oneOverride is the override of the key; nil without one.
type oneOverride struct{ o *quota.Override }

func (o *oneOverride) Override(quota.Key) *quota.Override { return o.o }

func play(t *testing.T, kind uint8, s *source) {
	t.Helper()
	version := uint64(0)
	set := func(list ...quota.Limit) *quota.Limits {
		version++
		limits, err := quota.NewLimits(version, list)
		if err != nil {
			t.Fatal(err)
		}
		return limits
	}
	now := quota.Time(time.Hour)
	over := &oneOverride{}
	l := New(Config{Overrides: over}, 0, 2, "a", []quota.NodeID{"a", "b"}, set(fuzzLimit(kind)), nil, now)
	for len(s.data) > 0 {
		packAll(t, l)
		now = now.Add(time.Duration(s.byte()) * time.Millisecond)
		switch b := s.byte(); {
		case b > 250:
			l.Sweep(now)
		case b > 247:
			l.MemberGone(now, "b", 2)
		case b > 246:
			l.Suspect(now, "b")
		case b > 240:
			l.SetLimits(now, set(fuzzLimit(s.byte())))
		case b > 238:
			l.SetLimits(now, set())
		case b > 234:
			over.o = s.override()
			l.Overridden(now, []quota.Key{{LimitName: quota.LimitName{Namespace: "n", Limit: "l"}, Key: "k"}})
		case b > 232:
			l.Reset(now, quota.Key{LimitName: quota.LimitName{Namespace: "n", Limit: "l"}, Key: "k"})
		case b > 230:
			l.Checkpoint(now, 10)
		case b > 226:
			l.Saved(now, quota.Seq(s.byte()))
		case b > 190:
			q := s.ask()
			checkAnswer(t, l.Ask(now, []quota.Ask{q})[0])
			checkRepeated(t, l, now, q)
		default:
			_, _ = l.Report(now, s.report(2)) // it may be refused
		}
		checkBooks(t, l, now)
	}
}

func (s *source) override() *quota.Override {
	o := &quota.Override{Burst: -1}
	switch s.byte() % 5 {
	case 0:
		return nil
	case 1:
		o.Scale = 1 + int64(s.byte())*quota.Million/50
	case 2:
		o.Burst = int64(s.byte())
	case 3:
		o.Class = quota.Unlimited
	case 4:
		o.Class = quota.Banned
	}
	return o
}

func (s *source) ask() quota.Ask {
	return quota.Ask{
		From: quota.NodeID([]string{"a", "b", "c"}[s.byte()%3]), Incarnation: quota.Incarnation(s.byte() / 100), ID: quota.Seq(s.byte() / 4),
		Key:  quota.Key{LimitName: quota.LimitName{Namespace: "n", Limit: "l"}, Key: "k"},
		Cost: s.units(), MaxWait: time.Duration(s.units()), Overdrawn: s.units(),
	}
}

func checkAnswer(t *testing.T, a quota.Answer) {
	t.Helper()
	if a.Wait < 0 || a.RetryAfter < 0 || a.ResetAfter < 0 || a.Allowed && a.RetryAfter != 0 || !a.Allowed && a.Wait != 0 {
		t.Fatalf("answered %+v", a)
	}
}

func checkBooks(t *testing.T, l *Ledger, now quota.Time) {
	t.Helper()
	for b := range l.buckets.all() {
		if b = l.current(b); b == nil {
			continue
		}
		b.advance(now)
		sum := b.pool.Level()
		for i := range b.allocations {
			al := &b.allocations[i]
			if al.standing() < 0 || al.charged < al.rate || al.rarely().inFlight < 0 {
				t.Fatalf("%s: standing %d, rate %d, charged %d, in flight %d", al.node, al.standing(), al.rate, al.charged, al.rarely().inFlight)
			}
			sum = sum.Plus(al.standing())
			if b.tier.Kind == quota.Concurrency {
				sum = sum.Plus(al.rarely().inFlight)
			}
		}
		// More in flight than the burst looks like nothing free.
		if full := b.limit.BurstUnits(); sum > full+b.unseen(now, nil, b.level()) {
			t.Fatalf("%v: free %d and standing together %d, more than the burst of %d", b.tier.Kind, b.pool.Level(), sum, full)
		}
	}
}

// checkRepeated repeats the request with the same name: nothing changes.
func checkRepeated(t *testing.T, l *Ledger, now quota.Time, q quota.Ask) {
	t.Helper()
	b := l.bucket(q.Key)
	if b == nil || q.ID == 0 {
		return
	}
	b.advance(now) // only reports change what is in flight
	level, tried, admitted := b.pool.Level(), b.attempted, b.admitted
	checkAnswer(t, l.Ask(now, []quota.Ask{q})[0])
	if b.pool.Level() != level || b.attempted != tried || b.admitted != admitted {
		t.Fatalf("repeated %+v: level %d, attempted %d, admitted %d; were %d, %d, %d", q, b.pool.Level(), b.attempted, b.admitted, level, tried, admitted)
	}
}
