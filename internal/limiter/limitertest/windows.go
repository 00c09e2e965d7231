package limitertest

import (
	"fmt"
	"math/big"

	"github.com/quorate/quorate/internal/quota"
)

// charge is one charge to a window; a refund is negative.
type charge struct {
	window string
	units  *big.Rat
}

func sum(all []charge, window string) *big.Rat {
	total := new(big.Rat)
	for _, c := range all {
		if c.window == window {
			total.Add(total, c.units)
		}
	}
	return total
}

// refundable returns u, at most out.
func refundable(u, out *big.Rat) *big.Rat {
	if u.Cmp(out) > 0 {
		return out
	}
	return u
}

// windowOf names the window that contains the moment.
func windowOf(t quota.Tier, at quota.Time) string {
	if t.Kind == quota.CalendarWindow {
		return calendarName(t.Calendar, at)
	}
	return index(t, at).String()
}

func index(t quota.Tier, at quota.Time) *big.Int {
	return floor(big.NewRat(int64(at), int64(t.Rate.Per)))
}

// windows models fixed and calendar windows: charges in a window of the same name count.
type windows struct {
	tier   quota.Tier
	now    quota.Time
	window string
	all    []charge
}

func (w *windows) advance(now quota.Time) {
	if now != w.now {
		w.now, w.window = now, windowOf(w.tier, now)
	}
}

func (w *windows) level() *big.Rat {
	return new(big.Rat).Sub(units(w.tier), sum(w.all, w.window))
}

func (w *windows) add(u *big.Rat) {
	u = refundable(u, sum(w.all, w.window))
	w.all = append(w.all, charge{w.window, new(big.Rat).Neg(u)})
}

func (w *windows) retier(t quota.Tier) {
	used := sum(w.all, w.window)
	w.tier, w.window = t, windowOf(t, w.now)
	w.all = []charge{{w.window, used}}
}

func (w *windows) clone() counter { c := *w; c.all = append([]charge(nil), w.all...); return &c }

// sliding counts the charges of the current window, and those of the previous one in proportion to
// how much of it is less than a period ago.
type sliding struct {
	tier quota.Tier
	now  quota.Time
	all  []charge
}

func (s *sliding) advance(now quota.Time) {
	s.now = now
	if out := s.out(); out.Sign() < 0 { // never more than full
		s.all = append(s.all, charge{index(s.tier, now).String(), out.Neg(out)})
	}
}

func (s *sliding) out() *big.Rat {
	this := index(s.tier, s.now)
	before := sum(s.all, new(big.Int).Sub(this, big.NewInt(1)).String())
	if before.Sign() < 0 {
		before.SetInt64(0)
	}
	before.SetInt(ceil(before)) // a window is closed on whole units
	into := new(big.Rat).Sub(big.NewRat(int64(s.now), int64(s.tier.Rate.Per)), new(big.Rat).SetInt(this))
	counts := before.Mul(before, into.Sub(whole(1), into))
	return counts.Add(counts, sum(s.all, this.String()))
}

func (s *sliding) level() *big.Rat { return new(big.Rat).Sub(units(s.tier), s.out()) }

func (s *sliding) add(u *big.Rat) {
	u = refundable(u, s.out())
	s.all = append(s.all, charge{index(s.tier, s.now).String(), new(big.Rat).Neg(u)})
}

// retier to another period charges the new window with the current use.
func (s *sliding) retier(t quota.Tier) {
	if t.Rate.Per != s.tier.Rate.Per {
		out := new(big.Rat).SetInt(ceil(s.out()))
		s.all = []charge{{index(t, s.now).String(), out}}
	}
	s.tier = t
}

func (s *sliding) clone() counter { c := *s; c.all = append([]charge(nil), s.all...); return &c }

// periodic opens a window with the first charge when none is open. The window closes a period
// later, or when everything has been refunded.
type periodic struct {
	tier   quota.Tier
	now    quota.Time
	open   bool
	began  quota.Time
	window string // unique for each opening
	ends   *big.Int
	all    []charge
}

func (p *periodic) advance(now quota.Time) {
	p.now = now
	if p.open && big.NewInt(int64(now)).Cmp(p.ends) >= 0 {
		p.open = false
	}
}

func (p *periodic) used() *big.Rat {
	if !p.open {
		return new(big.Rat)
	}
	return sum(p.all, p.window)
}

func (p *periodic) level() *big.Rat { return new(big.Rat).Sub(units(p.tier), p.used()) }

func (p *periodic) add(u *big.Rat) {
	if !p.open && u.Sign() < 0 {
		p.open, p.began = true, p.now
		p.ends = new(big.Int).Add(big.NewInt(int64(p.now)), big.NewInt(int64(p.tier.Rate.Per)))
		p.window = fmt.Sprint(len(p.all), " until ", p.ends)
	}
	u = refundable(u, p.used())
	p.all = append(p.all, charge{p.window, new(big.Rat).Neg(u)})
	if p.used().Sign() == 0 {
		p.open = false
	}
}

// retier moves the end of the window unless it would end now.
func (p *periodic) retier(t quota.Tier) {
	if p.open {
		ends := new(big.Int).Add(big.NewInt(int64(p.began)), big.NewInt(int64(t.Rate.Per)))
		if ends.Cmp(big.NewInt(int64(p.now))) > 0 {
			p.ends = ends
		}
	}
	p.tier = t
}

func (p *periodic) clone() counter { c := *p; c.all = append([]charge(nil), p.all...); return &c }

// inFlight is a plain sum.
type inFlight struct {
	tier quota.Tier
	used *big.Rat
}

func (f *inFlight) advance(quota.Time)  {}
func (f *inFlight) level() *big.Rat     { return new(big.Rat).Sub(units(f.tier), f.used) }
func (f *inFlight) add(u *big.Rat)      { f.used = new(big.Rat).Sub(f.used, refundable(u, f.used)) }
func (f *inFlight) retier(t quota.Tier) { f.tier = t }
func (f *inFlight) clone() counter      { c := *f; return &c }
