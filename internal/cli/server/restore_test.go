package server

import (
	"testing"
	"time"

	"github.com/quorate/quorate/cluster/backup"
)

func TestRestoredText(t *testing.T) {
	c := &backup.Content{Ranges: make([]backup.RangeContent, 2)}
	c.At, c.Meta.LimitsVersion, c.Meta.Overrides, c.Head.Ranges = time.Unix(0, 0).UTC(), 3, 1, 2
	c.Ranges[1].Accounts = 1
	if got, want := restoredText(c), "Restored as of 1970-01-01T00:00:00Z: limits version 3, 1 override, 1 account, 2 ranges.\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
