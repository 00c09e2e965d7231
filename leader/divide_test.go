package leader

import (
	"testing"
	"time"
)

func TestConfig(t *testing.T) {
	if c := (Config{Sync: 5 * time.Second}).WithDefaults(); c.Lease != 15*time.Second || c.Learn != 15*time.Second {
		t.Errorf("sync 5s: lease %v, learn %v; want 15s", c.Lease, c.Learn)
	}
}
