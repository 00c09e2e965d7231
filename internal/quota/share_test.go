package quota

import (
	"testing"
	"time"
)

func TestShare(t *testing.T) {
	var list []Limit
	for _, n := range []LimitName{{"a", "one"}, {"a", "two"}, {"b", "one"}} {
		list = append(list, Limit{LimitName: n, Rate: Rate{Tokens: 1, Per: time.Second}, Burst: 1})
	}
	limits, err := NewLimits(1, list)
	if err != nil {
		t.Fatal(err)
	}
	inline := LimitName{"c", "@inline.bucket.soft.1.1000000000.5"}
	for n, want := range map[LimitName]int64{{"a", "one"}: 50, {"a", "two"}: 50, {"b", "one"}: 100, inline: 100} {
		if got := limits.Share(n, 300); got != want {
			t.Errorf("the share of %v is %d; want %d", n, got, want)
		}
		if got := limits.Share(n, 1); got != 1 {
			t.Errorf("the share of %v of a table of one key is %d; want 1", n, got)
		}
	}
}

// TestHasRoom checks that each sharer gets its part of the table, for any order of insertions.
func TestHasRoom(t *testing.T) {
	const most = 3200
	for _, sharers := range []int{1, 2, 5, 50} {
		share, size := int64(most/(sharers+1)), int64(0)
		for greedy := range sharers {
			keys := int64(0)
			for HasRoom(size, most, keys, share) {
				size, keys = size+1, keys+1
			}
			if want := max(1, share/32); keys < want || size > most {
				t.Errorf("%d of %d: has %d keys of %d; want %d or more", greedy, sharers, keys, size, want)
			}
			if greedy == 0 && keys != most-most/16 {
				t.Errorf("the first of %d has %d keys; want fifteen sixteenths of %d", sharers, keys, most)
			}
		}
	}
}
