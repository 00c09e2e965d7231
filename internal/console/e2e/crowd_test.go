package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/testspeed"
)

// crowd is how many limits, and how many keys of one limit, a page stays responsive with.
const crowd = 100_000

// TestCrowd looks at a node of 100,000 limits, and 100,000 keys of one of them, and measures in the
// browser how long that takes.
func TestCrowd(t *testing.T) {
	testspeed.Full(t)
	node, npm, chromium := need(t)
	dir := install(t, npm)
	n := build(t)
	var file strings.Builder
	file.WriteString("version: 1\nnamespaces:\n  web:\n    limits:\n      per_client: {rate: 50/s, burst: 100}\n")
	for i := range crowd - 1 {
		if i%50_000 == 0 {
			fmt.Fprintf(&file, "  big%d:\n    limits:\n", i/50_000)
		}
		fmt.Fprintf(&file, "      l%05d: {rate: %d/s}\n", i, 1+i%9)
	}
	path := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(path, []byte(file.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	b := base(t, 11, 12, 13, 15)
	n.start("Ctrl-C stops", "dev", "--quiet", "--nodes", "1", "--ranges", "4", "--limits", path, "--base-port", strconv.Itoa(b))
	drive(t, node, dir, "crowd.mjs", 5*time.Minute, map[string]any{"chromium": chromium, "open": fmt.Sprintf("http://127.0.0.1:%d", b+11), "limits": crowd, "keys": crowd})
}
