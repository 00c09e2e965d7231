package limiter

import (
	"encoding/binary"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

const day = 24 * time.Hour

// model is a token bucket on exact fractions of a unit.
type model struct {
	level *big.Rat
	at    quota.Time
}

func newModel(level quota.Units, at quota.Time) *model { return &model{units(level), at} }

func units(u quota.Units) *big.Rat { return new(big.Rat).SetInt64(int64(u)) }

func (m *model) add(u quota.Units) { m.level.Add(m.level, units(u)) }

func (m *model) refill(now quota.Time, r quota.Rate, top quota.Units) {
	dt := now.Sub(m.at)
	if dt > 0 {
		m.at = now
	}
	if dt > 0 && r.Per > 0 {
		earned := new(big.Rat).SetInt(new(big.Int).Mul(big.NewInt(int64(dt)), big.NewInt(int64(quota.FromTokens(r.Tokens)))))
		m.level.Add(m.level, earned.Quo(earned, new(big.Rat).SetInt64(int64(r.Per))))
	}
	if t := units(top); m.level.Cmp(t) > 0 {
		m.level = t
	}
}

// check fails unless the bucket's level is that of the model, less than a unit below it and never above.
func (m *model) check(t *testing.T, b *Bucket, what any) {
	t.Helper()
	below := new(big.Rat).Sub(m.level, units(b.Level()))
	if below.Sign() < 0 || below.Cmp(big.NewRat(1, 1)) >= 0 {
		t.Fatalf("%v: holds %d units, want %s: %s below; must be 0 to less than 1", what, b.Level(), m.level.FloatString(6), below.FloatString(6))
	}
}

var rates = []quota.Rate{
	{Tokens: 1, Per: 365 * day},
	{Tokens: 7, Per: 3 * time.Second},
	{Tokens: 1, Per: time.Second},
	{Tokens: 10, Per: time.Minute},
	{Tokens: 333_333, Per: 1_000_003},
	{Tokens: 1_000_000_000, Per: time.Second},
	{Tokens: quota.MaxTokens, Per: time.Second},
	{Tokens: 0, Per: time.Second},
	{},
}

// step is one event of a bucket; the input of a fuzzer is read as a sequence of them.
type step struct {
	kind byte
	arg  int64
}

const stepLen = 9

func steps(data []byte) []step {
	var out []step
	for ; len(data) >= stepLen; data = data[stepLen:] {
		out = append(out, step{data[0], int64(binary.LittleEndian.Uint64(data[1:]))})
	}
	return out
}

// play runs the same steps on a bucket and on the model. The rate stays the same for the whole run: a change may cost
// the fraction of a unit earned so far.
func play(t *testing.T, rate quota.Rate, all []step) {
	t.Helper()
	const start = quota.Time(1_700_000_000_000_000_000)
	top := quota.FromTokens(100)
	b, m := NewBucket(top, start), newModel(top, start)
	now := start
	for i, s := range all {
		switch s.kind % 6 {
		case 0: // a moment passes
			now = now.Add(time.Duration(s.arg % int64(time.Second)))
		case 1: // a long idle, or the clock jumps back
			now = now.Add(time.Duration(s.arg % int64(3000*day)))
		case 2: // tokens are taken, perhaps into debt, or added
			u := quota.Units(s.arg % int64(quota.FromTokens(1_000_000)))
			b.Add(u)
			m.add(u)
		case 3: // a new burst, perhaps 0
			top = quota.FromTokens(s.arg & (quota.MaxTokens - 1))
			if s.arg&1 == 0 {
				top = 0
			}
		case 4: // deep in debt
			u := min(0, quota.FromTokens(-quota.MaxTokens/2)-b.Level())
			b.Add(u)
			m.add(u)
		case 5:
			cost := quota.Units(s.arg & (1<<40 - 1))
			m.refill(now, rate, top)
			if got, want := b.Take(now, rate, top, cost), m.level.Cmp(units(cost)) >= 0; got != want {
				t.Fatalf("step %d: Take(%d) = %v, want %v with %s", i, cost, got, want, m.level.FloatString(6))
			} else if got {
				m.add(-cost)
			}
		}
		b.Refill(now, rate, top)
		m.refill(now, rate, top)
		m.check(t, &b, i)
	}
}

// TestBucketIsExact compares random histories with exact fractions.
func TestBucketIsExact(t *testing.T) {
	for _, rate := range rates {
		for seed := range uint64(50) {
			rng := rand.New(rand.NewPCG(seed, 1))
			all := make([]step, 200)
			for i := range all {
				all[i] = step{byte(rng.Uint32()), rng.Int64() >> rng.IntN(63)}
				if rng.IntN(8) == 0 {
					all[i].arg = -all[i].arg
				}
			}
			play(t, rate, all)
		}
	}
}

func FuzzBucket(f *testing.F) {
	f.Add(int64(7), int64(3*time.Second), []byte("0123456789abcdefghijklmnopqrstuvwxyz"))
	f.Add(int64(1), int64(365*day), []byte("\x01\xff\xff\xff\xff\xff\xff\xff\x00\x05\x01\x00\x00\x00\x00\x00\x00\x00"))
	f.Add(quota.MaxTokens, int64(time.Second), []byte("\x04\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x01\x00\x00"))
	f.Fuzz(func(t *testing.T, tokens, per int64, data []byte) {
		rate := quota.Rate{Tokens: min(max(tokens, 0), quota.MaxTokens), Per: max(1, time.Duration(per))}
		play(t, rate, steps(data[:min(len(data), 500*stepLen)]))
	})
}

// TestBucketDoesNotDrift makes a million uneven steps and ends at the level of one step of the same length.
func TestBucketDoesNotDrift(t *testing.T) {
	for _, rate := range rates {
		rng := rand.New(rand.NewPCG(1, 1))
		top := quota.FromTokens(quota.MaxTokens)
		b, m := NewBucket(0, 0), newModel(0, 0)
		now := quota.Time(0)
		for range 1_000_000 {
			now += quota.Time(rng.Int64N(7_000_000))
			b.Refill(now, rate, top)
		}
		m.refill(now, rate, top)
		m.check(t, &b, rate)
		if b.At() != now {
			t.Errorf("%v: refilled up to %d, want %d", rate, b.At(), now)
		}
	}
}

// TestBucketTimeline shows the decisions of a bucket of 2, 1/s, as a caller sees them.
func TestBucketTimeline(t *testing.T) {
	type row struct {
		at   time.Duration
		cost int64
		want bool
	}
	b := NewBucket(quota.FromTokens(2), 0)
	rate, top := quota.Rate{Tokens: 1, Per: time.Second}, quota.FromTokens(2)
	for i, r := range []row{
		{0, 3, false}, // more than the burst never passes
		{0, 1, true},
		{0, 1, true},
		{0, 1, false},
		{999_999_999, 1, false}, // a nanosecond early
		{time.Second, 1, true},
		{500 * time.Millisecond, 1, false},  // the clock jumps back:
		{1500 * time.Millisecond, 1, false}, // nothing is earned twice
		{2 * time.Second, 1, true},
		{time.Hour, 2, true}, // never more than the burst
		{time.Hour, 1, false},
	} {
		if got := b.Take(quota.Time(r.at), rate, top, quota.FromTokens(r.cost)); got != r.want {
			t.Errorf("row %d, at %v: Take(%d) = %v, want %v", i, r.at, r.cost, got, r.want)
		}
	}
}

// TestBucketPaysDebtFirst has a debt near the largest level and a refill beyond it: their sum counts.
func TestBucketPaysDebtFirst(t *testing.T) {
	top := quota.FromTokens(quota.MaxTokens)
	debt := quota.FromTokens(quota.MaxTokens / 2)
	rate := quota.Rate{Tokens: quota.MaxTokens, Per: time.Second}
	b, m := NewBucket(-debt, 0), newModel(-debt, 0)
	now := quota.Time(1250 * time.Millisecond)
	b.Refill(now, rate, top)
	m.refill(now, rate, top)
	m.check(t, &b, "after 1.25 s")
}
