package limiter_test

import (
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

// subjects are all kinds, and at 0 the bucket with debt.
func subjects() []limitertest.Subject {
	zones := calendars("Europe/Berlin", "America/New_York", "UTC", "Pacific/Apia", "America/St_Johns", "Australia/Lord_Howe", "America/Sao_Paulo")
	out := []limitertest.Subject{{Kind: quota.TokenBucket, Waits: true}}
	for _, k := range quota.Kinds() {
		out = append(out, limitertest.Subject{Kind: k, Calendars: zones})
	}
	return out
}

// TestConformance compares every algorithm with its exact model.
func TestConformance(t *testing.T) {
	for _, s := range subjects() {
		t.Run(s.String(), func(t *testing.T) { limitertest.Run(t, s) })
	}
}

func FuzzConformance(f *testing.F) { limitertest.Fuzz(f, subjects()) }
