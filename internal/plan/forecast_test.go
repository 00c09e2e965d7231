package plan

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// TestForecast checks that Fit finds a trend with weekends and noise, despite some wild days.
func TestForecast(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var days []float64
	for d := range 60 {
		v := 1000 + 10*float64(d) + 20*(rng.Float64()-0.5)
		if d%7 >= 5 {
			v -= 300
		}
		if d%17 == 3 {
			v *= 3
		}
		if d == 40 {
			v = math.NaN()
		}
		days = append(days, v)
	}
	f, err := Fit(days)
	if err != nil || f.Days != 59 {
		t.Fatalf("%+v, %v", f, err)
	}
	if f.Slope < 9 || f.Slope > 11 || math.Abs(f.At(63)-1630) > 60 || math.Abs(f.At(68)-1380) > 60 {
		t.Fatalf("%+v: day 63 %g, day 68 %g", f, f.At(63), f.At(68))
	}
	expected, earliest := f.Reaches(2000, 60, 365)
	if expected < 95 || expected > 106 || earliest < 60 || earliest > expected {
		t.Fatalf("reaches 2000 on day %d, perhaps on day %d", expected, earliest)
	}
	if e, _ := f.Reaches(1e9, 60, 365); e != -1 {
		t.Fatalf("reaches a thousand millions on day %d", e)
	}
}

// TestTooFewDays checks that six days yield no forecast.
func TestTooFewDays(t *testing.T) {
	if _, err := Fit([]float64{1, 2, math.NaN(), 4, 5, 6, 7}); !errors.Is(err, ErrTooFewDays) {
		t.Fatal(err)
	}
	if f, err := Fit(make([]float64, 7)); err != nil || f.At(100) != 0 {
		t.Fatalf("%+v, %v", f, err)
	}
}
