package replica

import (
	"testing"

	"github.com/quorate/quorate/internal/quota"
)

// TestOtherNeverFalls checks that the shared count keeps what a limit counted when the limit is deleted,
// gets series of its own, or is created again.
func TestOtherNeverFalls(t *testing.T) {
	m := &limitMetrics{}
	name := func(s string) quota.LimitName { return quota.LimitName{Namespace: "test", Limit: s} }
	for i, one := range []struct {
		now  map[string]int64
		want int64
	}{
		{nil, 0},
		{map[string]int64{"a": 5, "b": 7}, 12},
		{map[string]int64{"a": 6, "b": 7}, 13},
		{map[string]int64{"b": 8}, 14},          // a is gone
		{map[string]int64{"b": 8, "a": 2}, 16},  // a comes back
		{map[string]int64{"b": 1, "a": 2}, 17},  // b was created again meanwhile
		{map[string]int64{"b": 1, "c": 10}, 27}, // a is gone again
		{nil, 27},
	} {
		others := map[quota.LimitName]*quota.LiveError{}
		for n, v := range one.now {
			others[name(n)] = &quota.LiveError{Attempted: quota.Units(v)}
		}
		sum, some := m.together(others)
		if int64(sum.Attempted) != one.want || some != (i > 0) {
			t.Errorf("%d: %d, %v; want %d", i, sum.Attempted, some, one.want)
		}
	}
}

func TestKeyLabel(t *testing.T) {
	long := ""
	for len(long) < 200 {
		long += "é"
	}
	for key, want := range map[string]string{"acme": "acme", "a\xffb": "a�b", long: long[:128] + "..."} {
		if got := keyLabel(key); got != want {
			t.Errorf("%q: %q; want %q", key, got, want)
		}
	}
	if got := keyLabel("x" + long); got != "x"+long[:126]+"..." {
		t.Errorf("a character was cut in two: %q", got)
	}
}
