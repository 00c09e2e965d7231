package scenario

import (
	"fmt"
	"strconv"

	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/sim"
)

// resize reads the tiers that the limit has from then on, written as a limit.
func (p *parser) resize(v config.Value, f *sim.Fault) {
	p.oneKey(v)
	l, ok := v.Limit(limitName)
	if !ok {
		return
	}
	f.Tiers = l.Tiers()
	if plain := tiersOnly(f.Tiers); !l.Equal(&plain) {
		v.Fault("sets more than the size of the limit; must be rate, burst, limit, per, window, in_flight or tiers")
		return
	}
	if !p.counts {
		return
	}
	is := p.Limit.Tiers()
	same := len(is) == len(f.Tiers)
	for i := 0; same && i < len(is); i++ {
		same = is[i].Kind == f.Tiers[i].Kind
	}
	next := p.Limit
	next.SetFirst(f.Tiers[0])
	next.More = f.Tiers[1:]
	if err := next.Validate(); !same || err != nil {
		v.Fault("must be as many tiers as those of the limit, of the same kinds, and fit the rest of it")
	}
}

// FormatTiers writes tiers as a limit.
func FormatTiers(tiers []quota.Tier) string { return config.FormatLimit(tiersOnly(tiers)) }

// tiersOnly returns a limit that is nothing but its tiers.
func tiersOnly(tiers []quota.Tier) quota.Limit {
	l := quota.Limit{LimitName: limitName, More: tiers[1:]}
	l.SetFirst(tiers[0])
	return l
}

// override reads by how much an override multiplies the limit.
func (p *parser) override(v config.Value, f *sim.Fault) {
	p.oneKey(v)
	const want = "a factor from 0.001 to 1000, such as 0.5; 1 removes the override"
	v.Scalar(want, func(text string) error {
		by, err := strconv.ParseFloat(text, 64)
		if err != nil || by < 0.001 || by > 1000 {
			return config.Wrong(text, want)
		}
		f.Scale = int64(by*quota.Million + .5)
		if o := (quota.Override{Burst: -1, Scale: f.Scale}); p.counts && o.Apply(&p.Limit).Burst < 1 {
			return fmt.Errorf("is %s, which leaves less than one token", text)
		}
		return nil
	})
}

const resetWant = "all: everything is full again"
