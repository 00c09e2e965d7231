package aggregator

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// notPacked lists the fields of a state that a packed state omits: those that openBucket sets before they are read,
// that a bucket at rest does not have, and that follow from other fields.
var notPacked = []string{
	"phase", "dead", "changed", "as", // from the record, and from being compact
	"ref", "in", "over", "unpaid", "charged", "overCutOff", "refused", "want", "refunded", "undecided", "undecidedBefore", "returned", "unconfirmed", "sentBack", "estUsed", "estBack",
	"allocated", "unbacked", "outgrown", "inFlight", "before", "rate", "cap", "from", "base", "applied", "saved", "slot",
	"calm", "pending", "tries", "sent", "acked", "ackedOver", "ackedBack", "credit", "aside", "lastUse", "due", "openIdx",
	"cancelled", "local", "left", "tallied", "largest", "denied", "deniedCost", "answered", "pledged", "refundedFrom", "grantedNothing", "noGrantYet",
}

// TestPacked: every field of a closed bucket is packed, or has no effect until the key is opened. A new field belongs
// to one of the two.
func TestPacked(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		b := &bucket{key: "k", state: newState()}
		b.entryPtr.Store(&hotEntry{})
		at := start.Add(time.Duration(rng.Int64N(int64(time.Hour))))
		for _, f := range reflect.VisibleFields(reflect.TypeFor[state]()) {
			if name := f.Name; !f.Anonymous && !slices.Contains(notPacked, name) {
				b.rare()
				b.ownWindow()
				setAny(t, name, fieldOf(&b.state, name), rng, at)
			}
		}
		b.changed = at
		b.looked = at.Add(time.Duration(rng.Int64N(2000)-1000) * time.Millisecond)
		b.levelAt, b.stale = at, at.Add(time.Hour) // otherwise looked has no effect
		if rng.IntN(2) == 0 {
			b.windowState = &noWindow
		}
		f := b.compact(at)
		rec := f.append(nil)
		var read packedState
		if read.parse(rec); read != f {
			t.Fatalf("%v is read as %v", f, read)
		}
		got := &bucket{key: "k", state: newState()}
		got.restore(&read, at)
		want := b.state
		want.phase = closed
		if !reflect.DeepEqual(got.state, want) {
			t.Fatalf("restored\n%+v\nwas\n%+v", got.state, want)
		}
	}
}

// fieldOf returns an integer or bool field of a state, for setting.
func fieldOf(s *state, name string) any {
	switch name {
	case "epoch":
		return &s.epoch
	case "term":
		return &s.term
	case "voids":
		return &s.voids
	case "lag":
		return &s.lag
	case "offset":
		return &s.offset
	case "share":
		return &s.share
	}
	if u := map[string]*quota.Units{
		"est": &s.est, "others": &s.others, "presumed": &s.presumed, "level": &s.level, "demand": &s.demand, "wanted": &s.wanted,
		"beyond": &s.beyond, "slope": &s.slope,
	}[name]; u != nil {
		return u
	}
	if at := map[string]*quota.Time{
		"since": &s.since, "until": &s.until, "win": &s.win, "lease": &s.lease, "estAt": &s.estAt, "stale": &s.stale,
		"looked": &s.looked, "levelAt": &s.levelAt, "sentAt": &s.sentAt,
	}[name]; at != nil {
		return at
	}
	return map[string]*bool{
		"hasLevel": &s.hasLevel, "noneFree": &s.noneFree, "fresh": &s.fresh, "guessing": &s.guessing, "largeOverdraft": &s.largeOverdraft, "wantsLevel": &s.wantsLevel,
		"bound": &s.bound, "recalled": &s.recalled, "overdue": &s.overdue, "askAgain": &s.askAgain, "central": &s.central,
	}[name]
}

func setAny(t *testing.T, name string, field any, rng *rand.Rand, at quota.Time) {
	t.Helper()
	n := rng.Int64N(1 << rng.IntN(40))
	switch f := field.(type) {
	case *quota.Units:
		*f = quota.Units(n - 1000)
	case *quota.Time:
		*f = at + quota.Time(n-1<<20)
	case *quota.Seq:
		*f = quota.Seq(n)
	case *quota.Term:
		*f = quota.Term(n)
	case *time.Duration:
		*f = time.Duration(n)
	case *int64:
		*f = n
	case *uint32:
		*f = uint32(n)
	case *bool:
		if f == nil {
			t.Fatalf("%s: a new field of state; pack it, or say in notPacked why not", name)
		}
		*f = n%2 == 0
	}
}
