package quota

import (
	"math"
	"math/big"
	"strings"
	"testing"
	"time"
)

const day = 24 * time.Hour

func TestParseRate(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want Rate
		out  string // the result of String
	}{
		{"10/s", Rate{10, time.Second}, "10/s"},
		{"9/m", Rate{9, time.Minute}, "9/m"},
		{"10/m", Rate{10, time.Minute}, "10/m"},
		{"3/h", Rate{3, time.Hour}, "3/h"},
		{"1/d", Rate{1, day}, "1/d"},
		{"1/365d", Rate{1, 365 * day}, "1/365d"},
		{"100/10s", Rate{100, 10 * time.Second}, "100/10s"},
		{"100/15s", Rate{100, 15 * time.Second}, "100/15s"},
		{"100/100ms", Rate{100, 100 * time.Millisecond}, "100/100ms"},
		{"2.5/s", Rate{25, 10 * time.Second}, "25/10s"},
		{"2.50/s", Rate{25, 10 * time.Second}, "25/10s"},
		{"2.0/s", Rate{2, time.Second}, "2/s"},
		{"0.001/s", Rate{1, 1000 * time.Second}, "1/1000s"},
		{"0/s", Rate{0, time.Second}, "0/s"},
		{" 7 / 3s ", Rate{7, 3 * time.Second}, "7/3s"},
		{"1000000000/s", Rate{1_000_000_000, time.Second}, "1000000000/s"},
		{"4398046511104/s", Rate{MaxTokens, time.Second}, "4398046511104/s"},
	} {
		got, err := ParseRate(tc.in)
		if err != nil || got != tc.want || got.String() != tc.out {
			t.Errorf("ParseRate(%q) = %+v, %v, written %q; want %+v, written %q", tc.in, got, err, got, tc.want, tc.out)
		}
		if again, err := ParseRate(got.String()); err != nil || again != got {
			t.Errorf("ParseRate(%q) = %+v, %v; want %+v as before", got.String(), again, err, got)
		}
	}
}

func TestParseRateRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"":                       "tokens/period",
		"10":                     "tokens/period",
		"/s":                     "must be a number",
		"x/s":                    "must be a number",
		"+1/s":                   "must be a number",
		".5/s":                   "must be a number",
		"1e3/s":                  "must be a number",
		"1_000/s":                "must be a number",
		"1.-5/s":                 "must be a number",
		"-1/s":                   "negative",
		"-0/s":                   "negative",
		"-0.5/s":                 "negative",
		"4398046511105/s":        "too large",
		"99999999999999999999/s": "must be a number",
		"1/":                     "period",
		"1/0s":                   "period",
		"1/-1s":                  "period",
		"1/w":                    "period",
		"1/0d":                   "1d to 366d",
		"1/367d":                 "1d to 366d",
		"1/1.5d":                 "1d to 366d",
		"0.000000001/100d":       "decimal places",
	} {
		if got, err := ParseRate(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseRate(%q) = %+v, %v; want an error with %q", in, got, err, want)
		}
	}
}

func FuzzParseRate(f *testing.F) {
	for _, s := range []string{"10/s", "2.5/m", "100/10s", "1/365d", "0.000001/h", "00.10/1ms", "-0/s", "5./s", "1/1h1m1s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRate(s)
		if err != nil {
			return
		}
		if r.Tokens < 0 || r.Tokens > MaxTokens || r.Per <= 0 {
			t.Fatalf("ParseRate(%q) = %+v, out of bounds", s, r)
		}
		again, err := ParseRate(r.String())
		if err != nil || again != r {
			t.Fatalf("ParseRate(%q) = %+v, written %q, read again %+v, %v", s, r, r, again, err)
		}
	})
}

func FuzzMulDiv(f *testing.F) {
	for _, v := range [][3]int64{
		{0, 0, 1},
		{7, 3, 2},
		{-7, 3, 2},
		{-7, -3, 2},
		{math.MaxInt64, math.MaxInt64, 1},
		{math.MinInt64, 1, 1},
		{math.MinInt64, -1, 1},
		{math.MinInt64, math.MinInt64, math.MaxInt64},
		{math.MaxInt64, math.MaxInt64, math.MaxInt64},
		{math.MaxInt64, math.MaxInt64 - 1, math.MaxInt64},
		{wrapA, wrapB, wrapC},
	} {
		f.Add(v[0], v[1], v[2])
	}
	f.Fuzz(func(t *testing.T, a, b, c int64) {
		if c <= 0 {
			c = 1 + c&math.MaxInt64>>1
		}
		exact := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
		if got, want := MulDiv(a, b, c), clip(new(big.Int).Quo(exact, big.NewInt(c))); got != want {
			t.Errorf("MulDiv(%d, %d, %d) = %d, want %d", a, b, c, got, want)
		}
		if a < 0 || b < 0 {
			return
		}
		up := new(big.Int).Add(exact, big.NewInt(c-1))
		if got, want := MulDivCeil(a, b, c), clip(up.Quo(up, big.NewInt(c))); got != want {
			t.Errorf("MulDivCeil(%d, %d, %d) = %d, want %d", a, b, c, got, want)
		}
	})
}

// A quotient of 2^64-1 and a remainder: rounding it up once wrapped to 0.
const (
	wrapC = 2380009854120778090
	wrapA = 7894722427517909676
	wrapB = 5561111625513600109
)

func TestMulDivCeilWraps(t *testing.T) {
	exact := new(big.Int).Mul(big.NewInt(wrapA), big.NewInt(wrapB))
	q, rem := new(big.Int).QuoRem(exact, big.NewInt(wrapC), new(big.Int))
	if !q.IsUint64() || q.Uint64() != math.MaxUint64 || rem.Sign() == 0 {
		t.Fatalf("the case is none: quotient %v, remainder %v", q, rem)
	}
	if got := MulDivCeil(wrapA, wrapB, wrapC); got != math.MaxInt64 {
		t.Errorf("MulDivCeil = %d, want MaxInt64", got)
	}
}

func clip(v *big.Int) int64 {
	switch {
	case v.IsInt64():
		return v.Int64()
	case v.Sign() < 0:
		return math.MinInt64
	}
	return math.MaxInt64
}

func TestUnits(t *testing.T) {
	for u, want := range map[Units]int64{0: 0, 1: 0, Token - 1: 0, Token: 1, -1: -1, -Token: -1, -Token - 1: -2} {
		if got := u.Tokens(); got != want {
			t.Errorf("%d units are %d tokens, want %d", u, got, want)
		}
	}
	if a, b := FromTokens(math.MaxInt64), FromTokens(MaxTokens); a != b || a+b < a {
		t.Errorf("FromTokens saturates at %d, want %d, and twice that without overflow", a, b)
	}
	if a, b := FromTokens(math.MinInt64), FromTokens(-MaxTokens); a != b {
		t.Errorf("FromTokens saturates at %d, want %d", a, b)
	}
}

func TestTime(t *testing.T) {
	if got := Time(math.MaxInt64 - 1).Add(time.Hour); got != math.MaxInt64 {
		t.Errorf("the end of time plus an hour is %d", got)
	}
	if got := Time(math.MinInt64 + 1).Add(-time.Hour); got != math.MinInt64 {
		t.Errorf("the start of time less an hour is %d", got)
	}
	if got := Time(5).Sub(7); got != 0 {
		t.Errorf("a clock that jumped back let %v pass", got)
	}
	if got := Time(math.MaxInt64).Sub(math.MinInt64); got != math.MaxInt64 {
		t.Errorf("all of time is %v", got)
	}
}

func TestRatePeriods(t *testing.T) {
	for _, tc := range []struct {
		rate   Rate
		second Units
		token  time.Duration
	}{
		{Rate{}, 0, math.MaxInt64},
		{Rate{0, time.Second}, 0, math.MaxInt64},
		{Rate{10, time.Second}, 10 * Token, 100 * time.Millisecond},
		{Rate{1, 3 * time.Second}, 333_333, 3 * time.Second},
		{Rate{3, time.Second}, 3 * Token, 333_333_334},
		{Rate{1, 365 * day}, 0, 365 * day},
		{Rate{1_000_000_000, time.Second}, 1_000_000_000 * Token, 1},
	} {
		if got := tc.rate.PerSecond(); got != tc.second {
			t.Errorf("%v: PerSecond = %d, want %d", tc.rate, got, tc.second)
		}
		if got := tc.rate.TimeFor(Token); got != tc.token {
			t.Errorf("%v: TimeFor(a token) = %v, want %v", tc.rate, got, tc.token)
		}
		if got := tc.rate.TimeFor(0); got != 0 {
			t.Errorf("%v: TimeFor(0) = %v", tc.rate, got)
		}
	}
	if got := (Rate{1, 365 * day}).TimeFor(FromTokens(MaxTokens)); got != math.MaxInt64 {
		t.Errorf("4e12 years are %v", got)
	}
}

// TestRoundUnits: conversions saturate, also of numbers beyond int64.
func TestRoundUnits(t *testing.T) {
	for f, want := range map[float64]Units{
		0: 0, 1.9: 1, -1.9: -1, 1e18: 1e18, 1 << 63: math.MaxInt64, 1e300: math.MaxInt64, -1e300: math.MinInt64,
		math.Inf(1): math.MaxInt64, math.Inf(-1): math.MinInt64,
	} {
		if got := RoundUnits(f); got != want {
			t.Errorf("RoundUnits(%v) = %d, want %d", f, got, want)
		}
	}
	if got := RoundUnits(math.NaN()); got != 0 {
		t.Errorf("RoundUnits(NaN) = %d, want 0", got)
	}
}

func TestDefaultBurst(t *testing.T) {
	for text, want := range map[string]int64{
		"10/s": 10, "2.5/s": 3, "0.1/s": 1, "5/m": 1, "90/m": 2, "1000/10s": 100, "0/s": 1,
		"4398046511104/s": MaxTokens, "1/10ms": 100,
	} {
		r, err := ParseRate(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := DefaultBurst(r); got != want {
			t.Errorf("%s: %d; want %d", text, got, want)
		}
	}
	if got := DefaultBurst(Rate{Tokens: math.MaxInt64, Per: 1}); got != MaxTokens {
		t.Errorf("an impossible rate: %d", got)
	}
}
