package limiter_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/quorate/quorate/internal/limiter/limitertest"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/zone"
)

func calendars(zones ...string) []quota.Calendar {
	var out []quota.Calendar
	for i, name := range zones {
		z, err := zone.Load(name)
		if err != nil {
			panic(err)
		}
		units := quota.CalendarUnits()
		out = append(out, quota.Calendar{Unit: units[(i+2)%len(units)], Zone: z})
	}
	return out
}

var subjects = map[string]limitertest.Subject{
	"TokenBucket":    {Kind: quota.TokenBucket},
	"DebtBucket":     {Kind: quota.TokenBucket, Waits: true},
	"FixedWindow":    {Kind: quota.FixedWindow},
	"SlidingWindow":  {Kind: quota.SlidingWindow},
	"PeriodicRefill": {Kind: quota.PeriodicRefill},
	"Concurrency":    {Kind: quota.Concurrency},
	"CalendarWindow": {Kind: quota.CalendarWindow, Calendars: calendars(
		"Europe/Berlin", "America/New_York", "UTC", "Pacific/Apia", "America/St_Johns", "Australia/Lord_Howe", "America/Sao_Paulo")},
}

// TestConformance holds every algorithm to its exact model.
func TestConformance(t *testing.T) {
	for _, k := range quota.Kinds() {
		if !slices.ContainsFunc(slices.Collect(maps.Values(subjects)), func(s limitertest.Subject) bool { return s.Kind == k }) {
			t.Errorf("%v is none of the subjects", k)
		}
	}
	for name, s := range subjects {
		t.Run(name, func(t *testing.T) { limitertest.Run(t, s) })
	}
}

func FuzzTokenBucket(f *testing.F)    { limitertest.Fuzz(f, subjects["TokenBucket"], 60) }
func FuzzDebtBucket(f *testing.F)     { limitertest.Fuzz(f, subjects["DebtBucket"], 60) }
func FuzzFixedWindow(f *testing.F)    { limitertest.Fuzz(f, subjects["FixedWindow"], 60) }
func FuzzSlidingWindow(f *testing.F)  { limitertest.Fuzz(f, subjects["SlidingWindow"], 60) }
func FuzzPeriodicRefill(f *testing.F) { limitertest.Fuzz(f, subjects["PeriodicRefill"], 60) }
func FuzzConcurrency(f *testing.F)    { limitertest.Fuzz(f, subjects["Concurrency"], 60) }
func FuzzCalendarWindow(f *testing.F) { limitertest.Fuzz(f, subjects["CalendarWindow"], 20) }
