package config

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestExpiresInThePast checks that no override expires before it is set, not even so long before that the nanoseconds
// since 1970 overflow to a later moment.
func TestExpiresInThePast(t *testing.T) {
	now := quota.Time(time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC).UnixNano())
	for moment, want := range map[string]bool{
		"0001-01-01T00:00:00Z": false, "1000-01-01T00:00:00Z": false, "1677-01-01T00:00:00Z": false, "2026-11-29T12:00:00Z": false,
		"2026-11-29T12:00:01Z": true, "2261-12-31T00:00:00Z": true, "2262-01-01T00:00:00Z": false, "9999-01-01T00:00:00Z": false,
	} {
		list, err := ParseOverrides("overrides.yaml", []byte("overrides: [{namespace: n, limit: l, key: k, ban: true, expires: "+moment+"}]"), now)
		if (err == nil) != want {
			t.Errorf("%s: %v, %v; want it accepted: %v", moment, list, err, want)
		}
	}
}
