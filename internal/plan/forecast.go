package plan

import (
	"errors"
	"math"
	"slices"
)

// MinDays is the minimum number of days that a forecast needs.
const MinDays = 7

// ErrTooFewDays means that there is too little history for a forecast.
var ErrTooFewDays = errors.New("plan: a forecast needs at least 7 days of history")

// Forecast is a daily trend with a part for each weekday.
type Forecast struct {
	Days    int     // number of days it is based on
	Level   float64 // level at day 0
	Slope   float64 // per day
	Weekday [7]float64
	// Low and High are the 10th and 90th percentiles of how far days were off that: 10 of 100 days
	// were lower, and 10 of 100 were higher.
	Low, High float64
}

// Fit fits a forecast to one number per day, from day 0 on. NaN marks a day without data.
func Fit(days []float64) (Forecast, error) {
	f := Forecast{}
	var x, y []float64
	for i, v := range days {
		if !math.IsNaN(v) {
			x, y = append(x, float64(i)), append(y, v)
		}
	}
	if f.Days = len(x); f.Days < MinDays {
		return f, ErrTooFewDays
	}
	f.Slope = slope(x, y)
	rest := make([]float64, len(x))
	for i := range x {
		rest[i] = y[i] - f.Slope*x[i]
	}
	f.Level = median(rest)
	if f.Days >= 21 {
		f.weekdays(x, rest)
	}
	for i := range rest {
		rest[i] = y[i] - f.At(int(x[i]))
	}
	slices.Sort(rest)
	f.Low, f.High = quantile(rest, 0.1), quantile(rest, 0.9)
	return f, nil
}

// slope returns the median of the slopes between all pairs of days: 266,000 for the maximum of 730 days.
func slope(x, y []float64) float64 {
	var all []float64
	for i := range x {
		for j := range i {
			all = append(all, (y[i]-y[j])/(x[i]-x[j]))
		}
	}
	return median(all)
}

func (f *Forecast) weekdays(x, rest []float64) {
	for d := range 7 {
		var of []float64
		for i := range x {
			if int(x[i])%7 == d {
				of = append(of, rest[i]-f.Level)
			}
		}
		if len(of) > 0 {
			f.Weekday[d] = median(of)
		}
	}
}

// At returns the forecast for a day. Day 0 is the first of the history.
func (f *Forecast) At(day int) float64 {
	return f.Level + f.Slope*float64(day) + f.Weekday[((day%7)+7)%7]
}

// Reaches returns the first day, of the within days from from on, whose forecast is at least limit, and the
// first whose upper end is. It returns -1 for a day that does not exist.
func (f *Forecast) Reaches(limit float64, from, within int) (expected, earliest int) {
	expected, earliest = -1, -1
	for day := from; day < from+within && expected < 0; day++ {
		v := f.At(day)
		if v >= limit {
			expected = day
		}
		if earliest < 0 && v+f.High >= limit {
			earliest = day
		}
	}
	return expected, earliest
}

func median(all []float64) float64 {
	s := slices.Clone(all)
	slices.Sort(s)
	return quantile(s, 0.5)
}

// quantile returns a quantile of a sorted list, interpolating between values.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}
