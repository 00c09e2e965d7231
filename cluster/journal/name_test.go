//go:build unix

package journal

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/quorate/quorate/internal/syncdir"
)

// TestNameIsSynced checks that a power cut does not take the name of a new journal.
func TestNameIsSynced(t *testing.T) {
	dir, there := t.TempDir(), false
	defer syncdir.Observe(func(synced string) {
		_, err := os.Stat(filepath.Join(dir, FileName))
		there = there || synced == dir && err == nil
	})()
	open(t, config(dir, 1))
	if !there {
		t.Error("the directory was not synced after the file had its name")
	}
}
