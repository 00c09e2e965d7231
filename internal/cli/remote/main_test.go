package remote

import (
	"log"
	"os"
	"testing"
)

// TestMain hides the contexts of the user who runs the tests.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "quorate-remote")
	if err != nil {
		log.Fatal(err)
	}
	for _, home := range []string{"HOME", "XDG_CONFIG_HOME", "AppData"} {
		if err := os.Setenv(home, dir); err != nil {
			log.Fatal(err)
		}
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}
