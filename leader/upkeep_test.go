package leader

import (
	"fmt"
	"iter"
	"math"
	"runtime/debug"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// upkept is a ledger with open keys that members report.
type upkept struct {
	*Ledger
	t       testing.TB
	name    quota.LimitName
	ceiling quota.Ceiling
	members []quota.NodeID
	seq     quota.Seq
	now     quota.Time
}

func newUpkept(t testing.TB, keys, members int, ceiling quota.Ceiling) *upkept {
	t.Helper()
	u := &upkept{t: t, name: quota.LimitName{Namespace: "api", Limit: "per_tenant"}, ceiling: ceiling, now: quota.Time(1000 * time.Hour)}
	for m := range members {
		u.members = append(u.members, quota.NodeID(fmt.Sprintf("n%d", m)))
	}
	u.Ledger = New(Config{First: true, MaxKeys: 4 * keys}, 0, 1, "n0", u.members, u.limits(1), nil, u.now)
	const part = 4096
	for from := 0; from < keys; from += part {
		u.seq++
		for _, m := range u.members {
			r := quota.Report{Term: 1, From: m, Incarnation: 1, Seq: u.seq}
			for k := from; k < min(keys, from+part); k++ {
				r.Entries = append(r.Entries, quota.ReportEntry{Key: u.key(k), Epoch: quota.Seq(k + 1), Overdrawn: quota.Token, Unreported: quota.Token})
			}
			u.report(r)
		}
	}
	u.Pushed()
	u.save()
	u.TopSince(10, 10)
	u.now = u.now.Add(750 * time.Millisecond) // no promise has to be renewed yet
	u.Sweep(u.now)
	u.save()
	if u.Len() != keys {
		t.Fatalf("%d keys are open; want %d", u.Len(), keys)
	}
	return u
}

func (u *upkept) limits(version uint64) *quota.Limits {
	u.t.Helper()
	limits, err := quota.NewLimits(version, []quota.Limit{{LimitName: u.name, Rate: quota.Rate{Tokens: 100, Per: time.Second}, Burst: 1000 + int64(version), Ceiling: u.ceiling}})
	if err != nil {
		u.t.Fatal(err)
	}
	return limits
}

func (u *upkept) key(k int) quota.Key {
	return quota.Key{LimitName: u.name, Key: fmt.Sprintf("tenant-%09d", k)}
}

func (u *upkept) report(r quota.Report) {
	u.t.Helper()
	if _, err := u.Report(u.now, r); err != nil {
		u.t.Fatal(err)
	}
}

// use reports one more token of a key.
func (u *upkept) use(k int) {
	u.t.Helper()
	u.seq++
	u.report(quota.Report{Term: 1, From: u.members[0], Incarnation: 1, Seq: u.seq, Entries: []quota.ReportEntry{{Key: u.key(k), Epoch: quota.Seq(k + 1), Overdrawn: 2 * quota.Token}}})
}

// save commits all changes.
func (u *upkept) save() {
	for len(u.Checkpoint(u.now, 4096)) > 0 {
		u.Saved(u.now, u.Written())
	}
}

// visited returns how many buckets upkeep has visited since the last call.
func (u *upkept) visited(f func()) int {
	before := u.visits
	f()
	return u.visits - before
}

// TestUpkeep checks that the work of periodic methods, and of events for all keys, depends on the
// changes and not on the number of keys; and that each step is short.
func TestUpkeep(t *testing.T) {
	sizes := []int{2_000, 20_000}
	if testspeed.IsFull() {
		sizes = append(sizes, 100_000)
	}
	for _, ceiling := range []quota.Ceiling{quota.Soft, quota.Hard} {
		for _, keys := range sizes {
			t.Run(fmt.Sprintf("%v/%d", ceiling, keys), func(t *testing.T) {
				u := newUpkept(t, keys, 3, ceiling)
				check := func(what string, most int, f func()) {
					t.Helper()
					if got := u.visited(f); got > most {
						t.Errorf("%s looked at %d accounts; want at most %d", what, got, most)
					}
				}
				check("a sweep when nothing is due", 0, func() { u.Sweep(u.now) })
				check("a checkpoint when nothing has moved", 0, func() { u.Checkpoint(u.now, 4096) })
				check("a list of keys when nothing was asked", 0, func() { u.TopSince(10, 10) })
				u.use(7)
				check("a checkpoint of one key", 1, func() {
					if n := len(u.Checkpoint(u.now, 4096)); n > 1 {
						t.Errorf("a checkpoint of one key has %d lines", n)
					}
				})
				u.Saved(u.now, u.Written())
				check("a list of one key", 1, func() {
					if top := u.TopSince(10, 10); len(top) != 1 || len(top[0].Keys) != 1 {
						t.Errorf("listed %+v", top)
					}
				})
				check("changed limits, a death, and a suspicion", 0, func() {
					u.SetLimits(u.now, u.limits(2))
					u.MemberGone(u.now, "n1", math.MaxUint64)
					u.Suspect(u.now, "n2")
				})
				check("a use after them", 4, func() { u.use(9) })
				const step = 100
				for from, more := 0, true; more; from += step {
					check("a step of a flush", step, func() { more = u.Flush(u.now, step) })
					if from > keys {
						t.Fatal("a flush does not end")
					}
				}
				steps, more := 0, true
				for ; more; steps++ {
					check("a step", 3*step+1, func() { more = u.SweepSome(u.now, step) })
				}
				if steps > 3*keys/step+10 {
					t.Errorf("%d steps of %d for %d keys", steps, step, keys)
				}
				u.save()
				check("a sweep when all have applied the changes", 0, func() { u.Sweep(u.now) })
				if err := u.Check(u.now); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestUpkeepOfLines checks that a line of the log counts until its key is full, that a sweep reads none, and that they
// are dropped when the last is due.
func TestUpkeepOfLines(t *testing.T) {
	const keys = 100
	u := &upkept{t: t, name: quota.LimitName{Namespace: "api", Limit: "per_tenant"}, now: quota.Time(1000 * time.Hour)}
	var levels []quota.KeyLevel
	for k := range keys {
		levels = append(levels, quota.KeyLevel{Key: u.key(k), At: u.now, Applied: u.now, FullAt: u.now.Add(time.Duration(k*79%keys+5) * time.Second)})
	}
	lines := &countedLines{Lines: LinesOf(levels)}
	l := New(Config{}, 0, 2, "n0", []quota.NodeID{"n0"}, u.limits(1), lines, u.now)
	lines.read = 0
	limit := u.limits(1).All()[0]
	for s := 5; s < keys+5; s++ {
		if l.lines != Lines(lines) {
			t.Fatalf("the lines are dropped after %d s", s-1)
		}
		now := u.now.Add(time.Duration(s) * time.Second)
		l.Sweep(now)
		if lines.read > 0 {
			t.Fatalf("a sweep has read %d lines", lines.read)
		}
		left := 0
		for k := range keys {
			if _, ok := l.savedLevelOf(now, u.key(k), &limit); ok {
				left++
			}
		}
		if lines.read = 0; left != keys+4-s {
			t.Fatalf("after %d s %d lines are left; want %d", s, left, keys+4-s)
		}
	}
	if l.lines == Lines(lines) {
		t.Error("lines of full keys remain")
	}
}

// countedLines counts the lines that are read.
type countedLines struct {
	Lines
	read int
}

func (ls *countedLines) Find(k quota.Key) (quota.KeyLevel, bool) {
	ls.read++
	return ls.Lines.Find(k)
}

func (ls *countedLines) All() iter.Seq[quota.KeyLevel] {
	ls.read++
	return ls.Lines.All()
}

// TestStepsOfChanges checks that a step of upkeep looks at no more buckets than it may, also at those that have applied
// all changes.
func TestStepsOfChanges(t *testing.T) {
	const keys, most = 2000, 10
	u := newUpkept(t, keys, 1, quota.Soft)
	u.SetLimits(u.now, u.limits(2))
	for k := range keys {
		if u.bucket(u.key(k)) == nil {
			t.Fatal("the change has dropped a bucket")
		}
	}
	steps := 0
	for ; len(u.changes) > 0; steps++ {
		u.SweepSome(u.now, most)
	}
	if steps < keys/most {
		t.Errorf("%d steps of %d have looked at %d buckets", steps, most, keys)
	}
}

// BenchmarkLocks measures the longest step that holds the lock of its range, while all buckets apply
// changed limits: of upkeep, of reports of 128 keys, and of lists of keys.
func BenchmarkLocks(b *testing.B) {
	for _, ceiling := range []quota.Ceiling{quota.Soft, quota.Hard} {
		for _, keys := range []int{10_000, 100_000, 1_000_000} {
			b.Run(fmt.Sprintf("%v/%d", ceiling, keys), func(b *testing.B) {
				testspeed.Full(b)
				u := newUpkept(b, keys, 1, ceiling)
				var steps []time.Duration
				step := func(f func()) {
					from := time.Now()
					f()
					steps = append(steps, time.Since(from))
				}
				defer debug.SetGCPercent(debug.SetGCPercent(-1)) // garbage collections are not counted
				for b.Loop() {
					u.now = u.now.Add(750 * time.Millisecond)
					step(func() { u.SetLimits(u.now, u.limits(uint64(2+len(steps)%2))) })
					for more, from := true, 0; more; from += 128 {
						step(func() { more = u.SweepSome(u.now, 128) })
						u.seq++
						r := quota.Report{Term: 1, From: u.members[0], Incarnation: 1, Seq: u.seq}
						for k := range 128 {
							k = (from + k) % keys
							r.Entries = append(r.Entries, quota.ReportEntry{Key: u.key(k), Epoch: quota.Seq(k + 1), Overdrawn: quota.FromTokens(int64(1 + len(steps))), Unreported: quota.Token})
						}
						step(func() { u.report(r) })
						step(func() { u.Checkpoint(u.now, 4096) })
						step(func() { u.Saved(u.now, u.Written()) })
					}
					for more := true; more; {
						step(func() { more = u.Flush(u.now, 128) })
					}
					scan := u.ScanRates(Query{Top: 100, Limits: every})
					for more := true; more; {
						step(func() { more = scan.Some(u.now, 128) })
					}
					scan.Close()
					for more := true; more; {
						step(func() { more = u.TopSome(100, 128) })
					}
				}
				slices.Sort(steps)
				b.ReportMetric(float64(steps[len(steps)-1].Microseconds()), "longest-us") // includes other processes
				b.ReportMetric(float64(steps[len(steps)*999/1000].Microseconds()), "p99.9-us")
			})
		}
	}
}

// TestQuietKeysAreNotLogged checks that a key with use far below its limit causes almost no lines
// in the log, that its use is still logged within writeWithin where counts endure, and that Flush
// writes it at once.
func TestQuietKeysAreNotLogged(t *testing.T) {
	for _, ceiling := range []quota.Ceiling{quota.Soft, quota.Hard} {
		t.Run(ceiling.String(), func(t *testing.T) {
			const keys, rounds = 200, 40 // of 0.75 s each
			u := newUpkept(t, keys, 3, ceiling)
			lines := 0
			use := func(round int) {
				u.seq++
				r := quota.Report{Term: 1, From: u.members[0], Incarnation: 1, Seq: u.seq}
				for k := range keys { // one token each; the limit yields 75 in that time
					r.Entries = append(r.Entries, quota.ReportEntry{Key: u.key(k), Epoch: quota.Seq(k + 1), Overdrawn: quota.FromTokens(int64(2 + round))})
				}
				u.report(r)
			}
			for round := range rounds {
				u.now = u.now.Add(750 * time.Millisecond)
				use(round)
				u.Sweep(u.now)
				lines += len(u.Checkpoint(u.now, 4096))
				u.Saved(u.now, u.Written())
			}
			most := keys * 4 // one per key and 10 s
			if ceiling == quota.Soft {
				most = 0
			}
			if lines > most {
				t.Errorf("%d lines for %d keys in %d rounds; want at most %d", lines, keys, rounds, most)
			}
			u.now = u.now.Add(750 * time.Millisecond)
			use(rounds)
			u.Checkpoint(u.now, 4096)
			u.Flush(u.now, math.MaxInt)
			if got := len(u.Checkpoint(u.now, 4096)); got != keys && ceiling == quota.Hard {
				t.Errorf("a flush wrote %d lines; want %d", got, keys)
			}
			if err := u.Check(u.now); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCountedLetsGo checks that the list of counted buckets keeps no dropped bucket, and that their
// places do not pile up: TopSince runs once a minute, and many keys may come and go until then.
func TestCountedLetsGo(t *testing.T) {
	l := &Ledger{buckets: newTable(), departed: map[quota.Key]listing{}, lost: map[quota.LimitName]quota.Units{}}
	const alive, all = 100, 10_000
	var open []*bucket
	for i := range all {
		b := attemptedBucket(quota.Key{Key: strconv.Itoa(i)}, 1)
		l.noteChanged(0, b)
		if open = append(open, b); len(open) > alive {
			l.keepCounts(open[0])
			open[0].dropped = true
			open = open[1:]
		}
	}
	kept := 0
	for n := l.counted.len(); n > 0; n-- {
		if b := l.counted.pop(); b != nil {
			if kept++; b.dropped {
				t.Fatalf("the list keeps %s, which is gone", b.name)
			}
		}
	}
	if kept != alive {
		t.Errorf("the list has %d of the %d open accounts", kept, alive)
	}
}

// TestCountedPlaces checks the number of places after many buckets were opened and dropped in
// order.
func TestCountedPlaces(t *testing.T) {
	l := &Ledger{buckets: newTable(), departed: map[quota.Key]listing{}, lost: map[quota.LimitName]quota.Units{}}
	var last *bucket
	for i := range 10_000 {
		b := attemptedBucket(quota.Key{Key: strconv.Itoa(i)}, 1)
		l.noteChanged(0, b)
		if last != nil {
			l.keepCounts(last)
		}
		last = b
	}
	if n := l.counted.len(); n > 8 {
		t.Errorf("%d places for one open account", n)
	}
}
