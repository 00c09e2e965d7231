package quota

import (
	"testing"
	"time"
)

// TestOverrideOfNoCount checks overrides of limits that count nothing, also of those that have become so since the
// override was set.
func TestOverrideOfNoCount(t *testing.T) {
	rate := Rate{Tokens: 5, Per: time.Second}
	for _, class := range []Class{Unlimited, Banned} {
		l := &Limit{LimitName: LimitName{"n", "l"}, Class: class, Rate: Rate{Per: time.Second}}
		for _, c := range []struct {
			name  string
			o     Override
			fits  bool
			class Class
			burst int64
		}{
			{"a rate", Override{Rate: rate, Burst: -1}, true, Counted, 5},
			{"a rate and a burst", Override{Rate: rate, Burst: 7}, true, Counted, 7},
			{"a rate and a scale", Override{Rate: rate, Burst: -1, Scale: 2 * Million}, true, Counted, 10},
			{"a rate of 0", Override{Rate: Rate{Per: time.Second}, Burst: -1}, true, Counted, 0},
			{"a burst", Override{Burst: 7}, false, class, 0},
			{"a scale", Override{Burst: -1, Scale: 2 * Million}, false, class, 0},
			{"unlimited", Override{Burst: -1, Class: Unlimited}, true, Unlimited, 0},
			{"a ban", Override{Burst: -1, Class: Banned}, true, Banned, 0},
		} {
			if err := c.o.Fits(l); (err == nil) != c.fits {
				t.Errorf("%v, %s: fits: %v; want %v", class, c.name, err, c.fits)
			}
			if got := c.o.Apply(l); got.Class != c.class || got.Burst != c.burst {
				t.Errorf("%v, %s: %v, burst %d; want %v, burst %d", class, c.name, got.Class, got.Burst, c.class, c.burst)
			}
		}
	}
}
