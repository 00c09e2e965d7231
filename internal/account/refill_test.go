package account

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// randomPolicy returns a valid policy, whose moments are often close to each other.
func randomPolicy(g *rand.Rand) Policy {
	divisors := []uint32{1, 2, 5, 60, 72, 900, 3600, 21600, 43200, 86400}
	p := Policy{Limit: g.Int64N(1000), Refill: Refill{
		Units: g.Int64N(201) - 100, Interval: divisors[g.IntN(len(divisors))], Offset: uint32(g.IntN(86401)),
	}}
	switch g.IntN(10) {
	case 0:
		p.Refill = Refill{Units: 1 + g.Int64N(5)} // always full
	case 1:
		p.Refill = Refill{}
	case 2:
		p.Refill.Units = []int64{Most, -Most}[g.IntN(2)]
	case 3:
		p.Limit = Most
	}
	return p
}

// TestRefillIsCron compares refills with a job that runs every second: over hours, from and to any
// nanosecond, with policy changes, and with reads in between that change nothing.
func TestRefillIsCron(t *testing.T) {
	for seed := range uint64(300) {
		g := rand.New(rand.NewPCG(seed, 3))
		now := midnight.Add(time.Duration(g.Int64N(int64(48 * time.Hour))))
		fast := g.Int64N(2000) - 500
		slow := fast
		for range 6 { // policies, one after the other
			p := randomPolicy(g)
			for range 1 + g.IntN(3) {
				next := now.Add(time.Duration(g.Int64N(int64([]time.Duration{3 * time.Second, 10 * time.Minute, 5 * time.Hour}[g.IntN(3)]))))
				if g.IntN(3) == 0 { // at a full second, and so possibly at a moment
					next = max(now, next-next%second)
				}
				fast = p.refill(fast, now, next)
				slow = everySecond(slow, p, now, next)
				if fast != slow {
					t.Fatalf("seed %d: %+v from %d to %d: got %d, want %d", seed, p, now, next, fast, slow)
				}
				now = next
			}
			if g.IntN(3) == 0 {
				d := g.Int64N(400) - 200 // an operation, possibly out of bounds
				fast, slow = fast+d, slow+d
			}
		}
	}
}

// everySecond is the job itself.
func everySecond(balance int64, p Policy, from, to quota.Time) int64 {
	if p.Refill.Interval == 0 {
		return cron(balance, p, from, to)
	}
	for s := int64(from)/second + 1; s <= int64(to)/second; s++ {
		balance = cronAt(balance, p, s)
	}
	return balance
}

// TestRefillOverYears compares with a job that runs only at the moments: over years, and to the
// nanosecond around each moment.
func TestRefillOverYears(t *testing.T) {
	for seed := range uint64(60) {
		g := rand.New(rand.NewPCG(seed, 4))
		p := randomPolicy(g)
		if p.Refill.Interval < 900 {
			p.Refill.Interval = 900
		}
		start := midnight.Add(time.Duration(g.Int64N(int64(400 * 24 * time.Hour))))
		balance := g.Int64N(2*p.Limit+2) - p.Limit/2
		from := int64(start) / second
		// The first moment after start.
		s := from + 1
		for ((s-int64(p.Refill.Offset))%86400+86400)%86400%int64(p.Refill.Interval) != 0 {
			s++
		}
		slow := balance
		for years := s + 3*366*86400; s < years; s += int64(p.Refill.Interval) {
			at := quota.Time(s * second)
			if got := p.refill(balance, start, at-1); got != slow {
				t.Fatalf("seed %d: %+v: before %d: got %d, want %d", seed, p, at, got, slow)
			}
			if next := p.next(slow, at-1); next != 0 && next != at || next == 0 && !settled(slow, p) {
				t.Fatalf("seed %d: %+v: the refill behind %d is at %d, not %d", seed, p, at-1, next, at)
			}
			slow = cronAt(slow, p, s)
			if got := p.refill(balance, start, at); got != slow {
				t.Fatalf("seed %d: %+v: at %d: got %d, want %d", seed, p, at, got, slow)
			}
		}
	}
}

// TestRefillDoesNotOverflow tries the greatest amounts and the longest times.
func TestRefillDoesNotOverflow(t *testing.T) {
	for _, c := range []struct {
		name          string
		p             Policy
		balance, want int64
	}{
		{"up", Policy{Limit: Most, Refill: Refill{Units: Most, Interval: 1}}, -Most, Most},
		{"down", Policy{Limit: Most, Refill: Refill{Units: -Most, Interval: 1}}, Most, 0},
		{"slowly up", Policy{Limit: Most, Refill: Refill{Units: 1, Interval: 1}}, -Most, -Most + 2*(math.MaxInt64/second) + 1},
		{"slowly down", Policy{Limit: Most, Refill: Refill{Units: -1, Interval: 1}}, Most, Most - 2*(math.MaxInt64/second) - 1},
		{"above stays", Policy{Limit: 3, Refill: Refill{Units: Most, Interval: 1}}, Most, Most},
		{"below stays", Policy{Limit: 3, Refill: Refill{Units: -Most, Interval: 1}}, -Most, -Most},
		{"full", Policy{Limit: Most, Refill: Refill{Units: 1}}, -Most, Most},
	} {
		check(t, c.name, c.p.refill(c.balance, math.MinInt64, math.MaxInt64), c.want)
	}
	p := Policy{Limit: 9, Refill: Refill{Units: 1, Interval: 86400}}
	check(t, "no moment at the end of time", p.next(0, math.MaxInt64), 0)
	check(t, "a clock that went back", p.refill(0, midnight, midnight-1), 0)
}

// TestRefillIsAssociative checks that reads in between do not change the result.
func TestRefillIsAssociative(t *testing.T) {
	g := rand.New(rand.NewPCG(5, 5))
	for range 20_000 {
		p := randomPolicy(g)
		from := quota.Time(g.Int64())
		to := from + quota.Time(g.Int64N(math.MaxInt64-int64(from)))
		between := from + quota.Time(g.Int64N(int64(to-from)+1))
		balance := g.Int64N(3*p.Limit+3) - p.Limit
		check(t, "refill", p.refill(p.refill(balance, from, between), between, to), p.refill(balance, from, to))
	}
}
