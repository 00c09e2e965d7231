package history

import (
	"slices"
	"strconv"
	"testing"

	"github.com/quorate/quorate/internal/quota"
)

// TestKeysSumLong checks that a sum over months of hours with mostly different busiest keys takes little
// memory, and that what it says of each key holds.
func TestKeysSumLong(t *testing.T) {
	if testing.Short() {
		t.Skip("runs for seconds in one goroutine; left out by -short")
	}
	const hours = 120 * 24
	var sum KeysSum
	for h := range hours {
		at := Second(h) * 3600
		p := KeysPart{Start: at, Seconds: 3600, KeysSpan: KeysSpan{From: at, Upto: at + 3600}, Top: TopKeys{Rest: 10}}
		for i := range KeysHour {
			key := strconv.Itoa(h*KeysHour + i) // listed in one hour only
			switch {
			case i == 0:
				key = "always"
			case i == 1 && h%2 == 0:
				key = "often"
			}
			p.Top.Keys = append(p.Top.Keys, KeyTotal{Key: key, Attempted: quota.Units(20 + i%3), Admitted: 1})
		}
		sum.Add(&p)
	}
	if n := len(sum.totals.keys); n > 2*KeysSummed {
		t.Fatalf("%d keys are kept; want at most %d", n, 2*KeysSummed)
	}
	top := sum.Top(quota.LimitName{}, 2)
	want := []KeyTotal{{"always", 20 * hours, hours, 0}, {"often", 21 * hours / 2, hours / 2, 10 * hours / 2}}
	if !slices.Equal(top.Keys, want) {
		t.Fatalf("%+v; want %+v", top.Keys, want)
	}
	if least := quota.Units(22 + 10*(hours-1)); top.Rest < least { // the bound for a key that is listed once
		t.Fatalf("others had at most %d; want at least %d", top.Rest, least)
	}
}
