package leader

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// announcer is a ledger of an hourly limit of 100 whose keys members use up.
type announcer struct {
	*Ledger
	t   *testing.T
	now quota.Time
	seq map[quota.NodeID]quota.Seq
}

func newAnnouncer(t *testing.T, term quota.Term, levels []quota.KeyLevel, nodes ...quota.NodeID) *announcer {
	t.Helper()
	a := &announcer{t: t, now: quota.Time(1000 * time.Hour), seq: map[quota.NodeID]quota.Seq{}}
	limits, err := quota.NewLimits(1, []quota.Limit{{LimitName: quota.LimitName{Namespace: "n", Limit: "l"}, Rate: quota.Rate{Tokens: 100, Per: time.Hour}, Burst: 100}})
	if err != nil {
		t.Fatal(err)
	}
	a.Ledger = New(Config{}, 0, term, "a", nodes, limits, LinesOf(levels), a.now)
	return a
}

func (a *announcer) key(k int) quota.Key {
	return quota.Key{LimitName: quota.LimitName{Namespace: "n", Limit: "l"}, Key: fmt.Sprintf("%03d", k)}
}

// report reports the use and refunds of a key from a member, and advances the clock by a sync interval.
func (a *announcer) report(from quota.NodeID, full bool, entries ...quota.ReportEntry) {
	a.t.Helper()
	a.seq[from]++
	r := quota.Report{Term: a.Term(), From: from, Incarnation: 1, Seq: a.seq[from], Full: full, Parts: 1, Entries: entries}
	if _, err := a.Report(a.now, r); err != nil {
		a.t.Fatal(err)
	}
	a.now = a.now.Add(100 * time.Millisecond)
}

// use reports the total use of a key, and what callers gave back.
func (a *announcer) use(k int, used, back int64) quota.ReportEntry {
	return quota.ReportEntry{Key: a.key(k), Epoch: 1, Overdrawn: quota.FromTokens(used), Unreported: quota.FromTokens(used), Refunded: quota.FromTokens(back)}
}

// announcements returns what is pushed to a member: keys and their levels in whole tokens.
func (a *announcer) announcements() map[quota.NodeID][]string {
	out := map[quota.NodeID][]string{}
	for _, g := range a.Pushed() {
		for _, e := range g.Entries {
			if e.Announced {
				out[g.To] = append(out[g.To], fmt.Sprintf("%s %d", e.Key.Key, e.Level.Tokens()))
			}
		}
	}
	return out
}

func (a *announcer) want(member quota.NodeID, list ...string) {
	a.t.Helper()
	if got := a.announcements()[member]; !slices.Equal(got, list) {
		a.t.Errorf("announced to %s: %v; want %v", member, got, list)
	}
}

// TestAnnounce checks that a used-up key is announced once to all members, and again when its level
// rises by a refund, a reset or another limit.
func TestAnnounce(t *testing.T) {
	a := newAnnouncer(t, 1, nil, "a", "b", "c")
	a.report("b", false, a.use(1, 60, 0))
	a.want("c")
	a.report("b", false, a.use(1, 100, 0))
	a.want("c", "001 0")
	a.report("b", false, a.use(1, 100, 0))
	a.want("a")
	a.report("b", false, a.use(1, 100, 5))
	a.want("a", "001 5")
	a.report("b", false, a.use(1, 105, 5))
	a.want("a", "001 0")
	a.Reset(a.now, a.key(1))
	a.report("b", false)
	a.want("c", "001 100")

	// A leader that does not know what another one announced announces a reset all the same.
	a = newAnnouncer(t, 2, nil, "a", "b", "c")
	a.Reset(a.now, a.key(1))
	a.report("b", false)
	a.want("c", "001 100")
	// A level that the log states is announced to members that report for the first time, and to all when the key is opened.
	a = newAnnouncer(t, 2, []quota.KeyLevel{{Key: a.key(1), At: a.now, Full: quota.FromTokens(100), FullAt: a.now.Add(time.Hour)}}, "a", "b", "c")
	a.report("c", true)
	a.want("c", "001 0")
	a.report("b", false, a.use(1, 0, 0))
	a.want("c", "001 0")
	a.report("b", true)
	a.want("b", "001 0")
}

// TestAnnounceToNewcomer checks that a member that reports for the first time learns which keys are
// used up now, and no more than maxAnnounced.
func TestAnnounceToNewcomer(t *testing.T) {
	a := newAnnouncer(t, 1, nil, "a", "b")
	a.report("b", false, a.use(1, 100, 0), a.use(2, 100, 0), a.use(3, 50, 0))
	a.report("b", false, a.use(1, 100, 50))
	for range 20 { // until they are packed
		a.now = a.now.Add(time.Second)
		a.Sweep(a.now)
	}
	a.announcements()
	a.report("c", true)
	a.want("c", "002 0")
	a.report("c", true)
	a.want("c")

	for k := range 2 * maxAnnounced {
		a.report("b", false, a.use(1000+k, 100, 0))
	}
	a.announcements()
	a.report("d", true)
	if got := a.announcements()["d"]; len(got) != maxAnnounced {
		t.Errorf("%d keys are announced to a newcomer; want %d", len(got), maxAnnounced)
	}
}

// TestAnnounceIsBounded checks that more keys than maxAnnouncing are announced one part after the other.
func TestAnnounceIsBounded(t *testing.T) {
	a := newAnnouncer(t, 1, nil, "a", "b")
	const keys = 5*maxAnnouncing + 1
	var entries []quota.ReportEntry
	for k := range keys {
		entries = append(entries, a.use(k, 100, 0))
	}
	announced := map[string]bool{}
	for round := range 6 {
		a.report("b", false, entries...)
		list := a.announcements()["a"]
		for _, k := range list {
			announced[k] = true
		}
		if len(list) > maxAnnouncing {
			t.Errorf("round %d: %d keys at once; want at most %d", round, len(list), maxAnnouncing)
		}
	}
	if len(announced) != keys {
		t.Errorf("%d of %d keys were announced", len(announced), keys)
	}
}

// TestAnnounceEveryRise checks that a reset of many keys that were announced is announced for each,
// one part after the other.
func TestAnnounceEveryRise(t *testing.T) {
	a := newAnnouncer(t, 1, nil, "a", "b")
	const keys = 5*maxAnnouncing + 1
	for k := range keys {
		a.report("b", false, a.use(k, 100, 0))
	}
	a.announcements()
	for k := range keys {
		a.Reset(a.now, a.key(k))
	}
	risen := map[string]bool{}
	for range 6 {
		a.report("b", false)
		list := a.announcements()["a"]
		for _, k := range list {
			risen[k] = true
		}
		if len(list) > maxAnnouncing {
			t.Errorf("%d keys at once; want at most %d", len(list), maxAnnouncing)
		}
	}
	if len(risen) != keys || !risen["001 100"] {
		t.Errorf("the reset of %d of %d keys was announced: %v", len(risen), keys, risen)
	}
}
