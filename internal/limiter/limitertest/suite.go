package limitertest

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// histories returns the number of random histories for each limit: a tenth with -short.
func histories() uint64 {
	if testing.Short() {
		return (*seeds + 9) / 10
	}
	return *seeds
}

var seeds = flag.Uint64("limiter.seeds", 30, "how many random histories for each limit of the suite")

// Subject is one algorithm to test, with what its limits need beside a rate and a burst.
type Subject struct {
	Kind quota.Kind
	// Waits sets MaxDebt and MaxWait.
	Waits bool
	// Calendars are those to use, for a CalendarWindow.
	Calendars []quota.Calendar
}

func (s Subject) String() string {
	if s.Waits {
		return s.Kind.String() + " with debt"
	}
	return s.Kind.String()
}

// Draw holds the numbers that a limit is made from. All values make a valid limit.
type Draw struct {
	Tokens, Per, Burst, Wait, Debt, MaxCost int64
	Calendar                                uint8
}

// Limit makes the limit of a draw.
func (s Subject) Limit(d Draw) quota.Limit {
	l := quota.Limit{LimitName: quota.LimitName{Namespace: "suite", Limit: "x"}, Kind: s.Kind}
	l.Rate = quota.Rate{Tokens: positive(d.Tokens, quota.MaxTokens), Per: time.Duration(1 + positive(d.Per, int64(400*24*time.Hour)))}
	l.Burst = positive(d.Burst, quota.MaxTokens)
	if l.Rate.PerSecond() > quota.FromTokens(quota.MaxTokens) {
		l.Rate.Per = time.Second
	}
	if s.Waits {
		l.MaxWait = time.Duration(positive(d.Wait, int64(quota.MaxPause)))
		l.MaxDebt = max(l.MaxWait, time.Duration(positive(d.Debt, int64(quota.MaxPause))))
	}
	if d.MaxCost > 0 {
		l.MaxCost = d.MaxCost % (quota.MaxTokens + 1)
	}
	switch {
	case s.Kind == quota.CalendarWindow:
		l.SetFirst(quota.Per(l.Burst, s.Calendars[int(d.Calendar)%len(s.Calendars)]))
	case s.Kind.Windowed():
		l.SetFirst(quota.Window(s.Kind, l.Burst, max(l.Rate.Per, time.Second)))
	case s.Kind == quota.Concurrency:
		l.SetFirst(quota.Tier{Kind: s.Kind, Burst: l.Burst})
	}
	return l
}

func positive(n, most int64) int64 {
	if n < 0 {
		n = ^n
	}
	if n > most {
		n %= most + 1
	}
	return n
}

// draws are the limits that random histories are played on.
var draws = []Draw{
	{Tokens: 1, Per: int64(365 * 24 * time.Hour), Burst: 1, Wait: int64(24 * time.Hour)},
	{Tokens: 1, Per: int64(time.Second) - 1, Burst: 0, Debt: int64(time.Minute)},
	{Tokens: 0, Per: int64(time.Minute), Burst: 10, Wait: int64(time.Second)},
	{Tokens: 7, Per: 3*int64(time.Second) - 1, Burst: 7, Wait: int64(time.Second), Debt: int64(10 * time.Second)},
	{Tokens: 333_333, Per: 1_000_003, Burst: 1_000, Wait: 1, Debt: 1_000_000, Calendar: 1},
	{Tokens: 1_000_000_000, Per: int64(time.Second) - 1, Burst: 2_000_000_000, Wait: int64(time.Hour), Calendar: 2},
	{Tokens: quota.MaxTokens, Per: int64(time.Second) - 1, Burst: quota.MaxTokens, Debt: int64(time.Hour), Calendar: 3},
	{Tokens: 100, Per: int64(time.Hour) - 1, Burst: 5, MaxCost: 3, Wait: int64(time.Minute), Debt: int64(24 * time.Hour), Calendar: 4},
	{Tokens: 50, Per: int64(10*time.Second) - 1, Burst: 50, Calendar: 5},
}

// Run plays random histories on limits of all sizes.
func Run(t *testing.T, s Subject) {
	for i, d := range draws {
		l := s.Limit(d)
		if err := l.Validate(); err != nil {
			t.Fatalf("the suite's limit %d is not valid: %v", i, err)
		}
		for seed := range histories() {
			t.Run(fmt.Sprintf("limit%d/seed%d", i, seed), func(t *testing.T) {
				Play(t, l, random(rand.New(rand.NewPCG(seed, uint64(i)))))
			})
		}
	}
}

func random(rng *rand.Rand) []Step {
	all := make([]Step, 60)
	for i := range all {
		all[i] = Step{Do: uint8(rng.Uint32()), Arg: rng.Int64() >> rng.IntN(63)}
		if rng.IntN(4) == 0 {
			all[i].Arg = -all[i].Arg
		}
		if rng.IntN(2) == 0 { // most of the time, ask
			all[i].Do = 4 + all[i].Do%4
		}
	}
	return all
}

// stepLen is the number of bytes of fuzzer input for one step.
const stepLen = 9

// Fuzz lets the fuzzer choose the algorithm, the limit and the history.
func Fuzz(f *testing.F, subjects []Subject) {
	for i, d := range draws {
		history := make([]byte, 0, 40*stepLen)
		for _, step := range random(rand.New(rand.NewPCG(uint64(i), 2)))[:40] {
			history = append(history, step.Do)
			history = binary.LittleEndian.AppendUint64(history, uint64(step.Arg))
		}
		for k := range subjects {
			f.Add(uint8(k), d.Tokens, d.Per, d.Burst, d.Wait, d.Debt, d.MaxCost, d.Calendar, history)
		}
	}
	f.Fuzz(func(t *testing.T, k uint8, tokens, per, burst, wait, debt, maxCost int64, calendar uint8, history []byte) {
		s := subjects[int(k)%len(subjects)]
		l := s.Limit(Draw{tokens, per, burst, wait, debt, maxCost, calendar})
		if err := l.Validate(); err != nil {
			t.Fatalf("not valid: %v", err)
		}
		most := 60
		if s.Kind == quota.CalendarWindow { // its model is slow
			most = 20
		}
		Play(t, l, steps(history, most))
	})
}

func steps(data []byte, most int) []Step {
	var out []Step
	for ; len(data) >= stepLen && len(out) < most; data = data[stepLen:] {
		out = append(out, Step{data[0], int64(binary.LittleEndian.Uint64(data[1:]))})
	}
	return out
}
