package recorder

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/history/archive"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// keysWorld simulates a range whose leaders list keys. Leaders are killed or hand over in order. Log
// entries are lost, or written after all. Replicas restart from a snapshot and the log, together with the
// files that they store into.
type keysWorld struct {
	t        *testing.T
	rng      *rand.Rand
	now      history.Second
	replicas []*keysReplica
	leader   *keysReplica // nil for some seconds after a leader was killed
	term     quota.Term
	log      []*raftlogv1.HistoryLines
	counts   map[string]quota.Units // booked by the leader since its last list
	waiting  map[string]quota.Units // not booked by any leader yet
	booked   map[history.Second]bool
	carried  map[string]quota.Units // in lists that are not in the log
	under    history.Minute         // minute of those lists
	truth    map[history.Minute]map[string]quota.Units
	lost     map[history.Second]bool // seconds with a booking that is in no list
}

type keysReplica struct {
	*Replica
	dir     string
	files   keyStore
	state   []byte // a snapshot
	applied int    // number of log entries in state
}

var keysLimit = quota.LimitName{Namespace: "n", Limit: "l"}

func newKeysWorld(t *testing.T, seed uint64) *keysWorld {
	w := &keysWorld{
		t: t, rng: rand.New(rand.NewPCG(seed, 9)), now: 500_000*3600 + history.Second(17+seed)%60, counts: map[string]quota.Units{}, waiting: map[string]quota.Units{},
		booked: map[history.Second]bool{}, carried: map[string]quota.Units{}, truth: map[history.Minute]map[string]quota.Units{}, lost: map[history.Second]bool{},
	}
	for range 2 {
		r := &keysReplica{Replica: NewReplica(), dir: t.TempDir()}
		r.open(t)
		w.replicas = append(w.replicas, r)
	}
	w.lead(w.replicas[0])
	return w
}

func (r *keysReplica) open(t *testing.T) {
	a, err := archive.Open(r.dir, archive.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	r.files = keyStore{archive: a, hours: map[hourOf]bool{}}
}

func at(s history.Second) quota.Time { return quota.Time(s) * quota.Time(time.Second) }

func (w *keysWorld) lead(r *keysReplica) {
	w.term++
	w.leader = r
	r.Lead(at(w.now), w.term)
	for key, n := range w.waiting {
		w.count(key, n)
	}
	clear(w.waiting)
}

func (w *keysWorld) count(key string, n quota.Units) {
	w.counts[key] += n
	w.booked[w.now] = true
}

// second simulates one second.
func (w *keysWorld) second(kills bool) {
	for range w.rng.IntN(4) {
		key, n := fmt.Sprint("k", int(w.rng.ExpFloat64()*15)), quota.Units(1+w.rng.IntN(1000))
		if w.leader == nil {
			w.waiting[key] += n
		} else {
			w.count(key, n)
		}
	}
	w.now++
	if w.leader == nil {
		if w.rng.IntN(8) == 0 {
			w.lead(w.replicas[w.rng.IntN(2)])
		}
		return
	}
	if m, due := w.leader.wantsList(w.now, 5); due {
		w.list(m, false)
	}
	w.write()
	switch {
	case kills && w.rng.IntN(2500) == 0:
		w.kill()
	case w.rng.IntN(1500) == 0 && len(w.carried) == 0:
		w.list(w.now.Slot().Minute(), true)
		for len(w.leader.Lists) > 0 {
			w.write()
		}
		w.count("k0", 1) // after its last list, before another leads
		w.kill()
		w.now++
		w.lead(w.replicas[w.rng.IntN(2)])
	}
}

func (w *keysWorld) kill() {
	w.leader.Follow()
	for s := range w.booked {
		w.lost[s] = true
	}
	clear(w.booked)
	clear(w.counts)
	clear(w.carried)
	w.leader = nil
}

// list does the same as Ledger.TopSince.
func (w *keysWorld) list(m history.Minute, ends bool) {
	t := history.TopKeys{Limit: keysLimit}
	for key, n := range w.counts {
		t.Keys = append(t.Keys, history.KeyTotal{Key: key, Attempted: n, Admitted: n / 2})
		w.carried[key] += n
	}
	slices.SortFunc(t.Keys, func(a, b history.KeyTotal) int {
		return cmp.Or(cmp.Compare(b.Attempted, a.Attempted), cmp.Compare(a.Key, b.Key))
	})
	if len(t.Keys) > history.KeysEach {
		t.Rest = t.Keys[history.KeysEach].Attempted
		t.Keys = t.Keys[:history.KeysEach]
	}
	clear(w.counts)
	w.under = m
	w.leader.setList(at(w.now), w.term, m, []history.TopKeys{t}, ends)
}

// write writes the leader's lines. The write may fail, or succeed and be reported as failed.
func (w *keysWorld) write() {
	lines, slots, term := w.leader.Lines(w.now, nil)
	if lines == nil {
		return
	}
	failed := w.rng.IntN(4) == 0
	if !failed || w.rng.IntN(2) == 0 {
		w.log = append(w.log, lines)
		for _, r := range w.replicas {
			if err := r.Apply(lines); err != nil {
				w.t.Fatal(err)
			}
		}
		w.written()
	}
	w.leader.Written(term, slots, !failed)
}

func (w *keysWorld) written() {
	if w.truth[w.under] == nil {
		w.truth[w.under] = map[string]quota.Units{}
	}
	for key, n := range w.carried {
		w.truth[w.under][key] += n
	}
	clear(w.carried)
	clear(w.booked)
}

// disk stores, takes a snapshot or restarts a replica.
func (w *keysWorld) disk() {
	r := w.replicas[w.rng.IntN(2)]
	switch w.rng.IntN(3) {
	case 0:
		if r == w.leader {
			return
		}
		if err := r.files.archive.Close(); err != nil {
			w.t.Fatal(err)
		}
		r.Replica = NewReplica()
		if r.state != nil {
			kept, keys, err := Decode(r.state)
			if err != nil {
				w.t.Fatal(err)
			}
			r.Restore(kept, keys)
		}
		for _, lines := range w.log[r.applied:] {
			if err := r.Apply(lines); err != nil {
				w.t.Fatal(err)
			}
		}
		r.open(w.t)
	case 1:
		r.state, r.applied = r.Snapshot(), len(w.log)
	}
	w.store()
}

func (w *keysWorld) store() {
	for _, r := range w.replicas {
		if err := r.files.store(1, func(quota.RangeID) *Replica { return r.Replica }); err != nil {
			w.t.Fatal(err)
		}
	}
}

// check asks every replica for the minutes from from until before end, and compares the answers with the
// truth.
func (w *keysWorld) check(from, end history.Second, most int) (gaps []history.Gap) {
	truth := map[string]quota.Units{}
	for m, of := range w.truth {
		if m.Start() >= from && m.Start() < end {
			for key, n := range of {
				truth[key] += n
			}
		}
	}
	for i, r := range w.replicas {
		sum, _, err := r.files.Read(0, r.Replica, keysLimit, from, end)
		if err != nil {
			w.t.Fatal(err)
		}
		top, named := sum.Top(keysLimit, most), map[string]bool{}
		for _, k := range top.Keys {
			named[k.Key] = true
			if n := truth[k.Key]; n < k.Attempted || n > k.Attempted+k.Error {
				w.t.Fatalf("replica %d, %d s: %s had %d; said are %d and at most %d more", i, end-from, k.Key, n, k.Attempted, k.Error)
			}
		}
		for key, n := range truth {
			if !named[key] && n > top.Rest {
				w.t.Fatalf("replica %d, %d s: %s, which is not named, had %d; said is at most %d", i, end-from, key, n, top.Rest)
			}
		}
		gaps = sum.Span().Gaps
	}
	return gaps
}

// TestHistoryKeysModel checks that answers about keys hold over minutes and hours, from memory and from
// disk, whichever replica restarts or leads. It also checks that a gap covers what a leader that was killed or
// handed over had not listed.
func TestHistoryKeysModel(t *testing.T) {
	testspeed.Full(t)
	for seed := range uint64(8) {
		kills := seed%2 == 0
		w := newKeysWorld(t, seed)
		begin := w.now - w.now%3600
		for i := range 9 * 3600 {
			w.second(kills)
			if i%600 == 599 {
				w.disk()
			}
		}
		for w.leader == nil || len(w.carried) > 0 || len(w.booked) > 0 {
			w.second(false)
		}
		w.store()
		end := w.now - w.now%60 + 120
		for range 30 {
			from := begin + 60*history.Second(w.rng.IntN(9*60))
			w.check(from, min(end, from+60*history.Second(1+w.rng.IntN(360))), 1+w.rng.IntN(40))
		}
		w.check(begin+3600, end, 30)
		gaps := w.check(begin, end, 100)
		for s := range w.lost {
			if !slices.ContainsFunc(gaps, func(g history.Gap) bool { return g.From <= s && s < g.End }) {
				t.Fatalf("seed %d: what was lost in second %d is in none of %v", seed, s, gaps)
			}
		}
		most := 2 // leaders that hand over
		if kills {
			most = 110
		}
		if secs := history.GapSeconds(gaps); int(secs) > most*int(w.term) {
			t.Fatalf("seed %d: gaps of %d s by %d leaders", seed, secs, w.term)
		}
	}
}

// TestHistoryFirstLeader checks that a gap covers what the first leader of a range had not listed when it was killed,
// in whatever second of a minute.
func TestHistoryFirstLeader(t *testing.T) {
	for seed := range uint64(300) {
		w := newKeysWorld(t, seed)
		begin := w.now - w.now%60
		for range 3 + w.rng.IntN(20) {
			w.second(false)
		}
		w.kill()
		lost := maps.Clone(w.lost)
		for range 200 {
			w.second(false)
		}
		gaps := w.check(begin, w.now+60, 100)
		for s := range lost {
			if !slices.ContainsFunc(gaps, func(g history.Gap) bool { return g.From <= s && s < g.End }) {
				t.Fatalf("seed %d: began in second %d; what was lost in second %d is in none of %v", seed, begin, s, gaps)
			}
		}
	}
}

// TestAskedInGaps checks that the demand of a minute within several gaps counts once.
func TestAskedInGaps(t *testing.T) {
	const now = 100 * Hour
	asked := func(g history.Gap, step history.Second) (a history.Answer, err error) { // one token per second
		for at := g.From - g.From%step; at < g.End; at += step {
			a.Points = append(a.Points, history.Point{Start: at, Seconds: int(step), Counts: history.Counts{Attempted: quota.Units(step) * quota.Token}})
		}
		return a, nil
	}
	begin := now - 10*Hour
	for _, c := range []struct {
		gaps []history.Gap
		want quota.Units
	}{
		{[]history.Gap{{From: begin + 10, End: begin + 11}, {From: begin + 20, End: begin + 21}, {From: begin + 50, End: begin + 70}}, 120},
		{[]history.Gap{{From: now - 60, End: now - 58}, {From: now - 57, End: now - 56}, {From: now - 10, End: now - 9}}, 9},
		{[]history.Gap{{From: begin + 90, End: begin + 95}, {From: begin + 200, End: begin + 8*Hour}}, 60 + 8*3600},
	} {
		if got, err := askedIn(c.gaps, now, asked); err != nil || got != c.want*quota.Token {
			t.Errorf("%v: %d, %v; want %d", c.gaps, got.Tokens(), err, c.want)
		}
	}
}
