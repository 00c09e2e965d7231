package leader_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
)

// TestFloodOfKeys: a client that floods limits with keys leaves room for buckets of each other
// limit, however many limits it uses. Room of dropped buckets is available again.
func TestFloodOfKeys(t *testing.T) {
	const most = 1600
	small, beside := quota.LimitName{Namespace: "small", Limit: "only"}, quota.LimitName{Namespace: "big", Limit: "beside"}
	names := []quota.LimitName{small, beside}
	big := func(i int) quota.LimitName {
		return quota.LimitName{Namespace: "big", Limit: "l" + strconv.Itoa(i%100)}
	}
	for i := range 100 {
		names = append(names, big(i))
	}
	inline := func(namespaces int) func(int) quota.LimitName {
		return func(i int) quota.LimitName {
			return quota.LimitName{Namespace: "n" + strconv.Itoa(i%namespaces), Limit: fmt.Sprintf("@inline.bucket.soft.30.60000000000.%d", i+5)}
		}
	}
	for what, c := range map[string]struct {
		flood func(i int) quota.LimitName
		least map[quota.LimitName]int // least number of buckets of others
	}{
		"one limit":                     {func(int) quota.LimitName { return big(0) }, map[quota.LimitName]int{small: most / 32, beside: 1}},
		"all limits of a namespace":     {big, map[quota.LimitName]int{small: most / 32 / 3, beside: 1, inline(1)(0): most / 32 / 3}},
		"a limit alone in a namespace":  {func(int) quota.LimitName { return small }, map[quota.LimitName]int{beside: 1, inline(1)(0): most / 32 / 3}},
		"inline limits":                 {inline(1), map[quota.LimitName]int{small: most / 32, beside: 1}},
		"inline limits of 7 namespaces": {inline(7), map[quota.LimitName]int{small: most / 32, beside: 1}},
		"inline limits and all of a namespace": {func(i int) quota.LimitName {
			if i%2 == 0 {
				return big(i / 2)
			}
			return inline(1)(i)
		}, map[quota.LimitName]int{small: most / 32 / 3, beside: 1}},
	} {
		f := newFlooded(t, most, names)
		flood := f.answered(c.flood, 5*most, false)
		if flood < most-most/16 {
			t.Errorf("%s: the flood has %d accounts; want %d or more", what, flood, most-most/16)
		}
		for n, least := range c.least { // each comes first once
			f := newFlooded(t, most, names)
			f.answered(c.flood, 5*most, false)
			if got := f.answered(func(int) quota.LimitName { return n }, most, false); got < least {
				t.Errorf("%s: %v has %d accounts; want %d or more", what, n, got, least)
			}
		}
		if f.Len() > most {
			t.Errorf("%s: %d accounts; at most %d", what, f.Len(), most)
		}
		f.answered(c.flood, 5*most, true)
		f.now = f.now.Add(time.Hour)
		f.Checkpoint(f.now, 5*most)
		f.Sweep(f.now)
		if got := f.answered(func(int) quota.LimitName { return small }, most/2, false); got != most/2 {
			t.Errorf("%s: when the flood is over another limit has %d accounts; want %d", what, got, most/2)
		}
	}
}

// flooded is a ledger with one reporting member.
type flooded struct {
	*leader.Ledger
	t   *testing.T
	now quota.Time
	seq quota.Seq
}

func newFlooded(t *testing.T, most int, names []quota.LimitName) *flooded {
	var list []quota.Limit
	for _, n := range names {
		list = append(list, quota.Limit{LimitName: n, Rate: quota.Rate{Tokens: 1, Per: time.Second}, Burst: 30, Ceiling: quota.Soft})
	}
	limits, err := quota.NewLimits(1, list)
	if err != nil {
		t.Fatal(err)
	}
	f := &flooded{t: t, now: 1_790_000_000_000_000_000}
	f.Ledger = leader.New(leader.Config{MaxKeys: most}, 0, 1, "a", []quota.NodeID{"a"}, limits, nil, f.now)
	return f
}

// answered reports keys of limits and returns the number of answers.
func (f *flooded) answered(limit func(i int) quota.LimitName, keys int, final bool) int {
	f.t.Helper()
	f.seq++
	r := quota.Report{Term: 1, From: "a", Incarnation: 1, Seq: f.seq}
	for i := range keys {
		r.Entries = append(r.Entries, quota.ReportEntry{
			Key: quota.Key{LimitName: limit(i), Key: strconv.Itoa(i)}, Epoch: 1, Overdrawn: quota.Token, Unreported: quota.Token, Final: final,
		})
	}
	g, err := f.Report(f.now, r)
	if err != nil {
		f.t.Fatal(err)
	}
	return len(g.Entries)
}
