package systemtest

import (
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/faulttest"
)

// bent builds the program with a clock and syncs that tests disturb, once.
var bent = sync.OnceValues(func() (string, error) {
	return faulttest.Build("..", "./cmd/quorate", filepath.Join(filepath.Dir(binary), "bent"))
})

// bend makes a node run the bent program. The node must not have started yet.
func (c *servers) bend(s *server) {
	c.t.Helper()
	program, err := bent()
	if err != nil {
		c.t.Fatal(err)
	}
	// The process that starts the script passes the program's name and arguments; the script drops
	// the name.
	script := filepath.Join(c.dir, s.id+".sh")
	write(c.t, script, fmt.Sprintf("shift\nexec env %s=%s %s=%s %s \"$@\"\n", faulttest.ClockEnv, c.bentClock(s), faulttest.SyncEnv, c.bentSync(s), program))
	s.prefix = append(s.prefix, "sh", script)
	c.clock(s, 0)
}

// clock sets a node's wall clock ahead of the true time; 0 corrects it.
func (c *servers) clock(s *server, ahead time.Duration) {
	c.t.Helper()
	if err := faulttest.SetClock(c.bentClock(s), ahead); err != nil {
		c.t.Fatal(err)
	}
}

func (c *servers) bentClock(s *server) string { return filepath.Join(c.dir, s.id+".clock") }
func (c *servers) bentSync(s *server) string  { return filepath.Join(c.dir, s.id+".sync") }

// bends checks that the disturbances take effect. Without it, every test of a bent fault would pass.
func bends(t *testing.T) {
	t.Helper()
	began := time.Now()
	c := newServers(t, 1)
	s := c.nodes[0]
	c.nodes = c.nodes[:1]
	c.bend(s)
	c.clock(s, time.Hour)
	c.start(s)
	c.awaitReady(s, 10*time.Second)
	t.Logf("built and started after %v", time.Since(began).Round(time.Second))
	if ahead := time.Until(s.date(t)); ahead < 59*time.Minute || ahead > 61*time.Minute {
		t.Errorf("the node's clock is %v ahead, want an hour", ahead)
	}
	write(t, c.bentSync(s), "700")
	began = time.Now()
	if c.apply(faultLimits); time.Since(began) < 700*time.Millisecond {
		t.Errorf("limits were committed within %v, with syncs that take 700ms", time.Since(began))
	}
	s.kill()
}

// date returns the time of a node's wall clock, to the second, as it says with every answer.
func (s *server) date(t *testing.T) time.Time {
	t.Helper()
	res, err := httpClient.Get("http://" + s.httpAddr + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	at, err := http.ParseTime(res.Header.Get("Date"))
	if err != nil {
		t.Fatal(err)
	}
	return at
}
