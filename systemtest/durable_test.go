package systemtest

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
	"github.com/quorate/quorate/shard"
)

// durableLimits returns windows of the given length, some below and some above the callers' demand.
func durableLimits(per time.Duration, few, many int) string {
	return fmt.Sprintf(`
version: 1
namespaces:
  api:
    limits:
      soft-above: {limit: %[2]d, per: %[1]v}
      hard-above: {limit: %[2]d, per: %[1]v, ceiling: hard}
      soft-below: {limit: %[3]d, per: %[1]v}
      hard-below: {limit: %[3]d, per: %[1]v, ceiling: hard}
`, per, many, few)
}

var durableNames = []string{"api/soft-above", "api/hard-above", "api/soft-below", "api/hard-below"}

// youngWindow returns a window length, at least least, whose current window has just begun: windows
// begin at multiples of their length.
func youngWindow(least time.Duration) time.Duration {
	best, age := least, least
	now := time.Duration(time.Now().UnixNano())
	for per := least; per < 2*least; per += time.Second {
		if now%per < age {
			best, age = per, now%per
		}
	}
	return best
}

// oneLeader returns a key of each limit, all in one range and so led by one node.
func (c *servers) oneLeader(limits ...string) []quota.Key {
	c.t.Helper()
	out := make([]quota.Key, len(limits))
	for i, l := range limits {
		name, err := quota.ParseLimitName(l)
		if err != nil {
			c.t.Fatal(err)
		}
		for n := 0; ; n++ {
			k := quota.Key{LimitName: name, Key: "key" + strconv.Itoa(n)}
			if i == 0 || shard.Of(k, c.ranges) == shard.Of(out[0], c.ranges) {
				out[i] = k
				break
			}
		}
	}
	return out
}

// leads returns the leader of a key's range, by the first node that knows it.
func (c *servers) leads(k quota.Key) *server {
	c.t.Helper()
	var id string
	eventually(c.t, 10*time.Second, fmt.Sprintf("somebody leads the range of %v", k), func() error {
		for _, s := range c.nodes {
			if st, err := s.status(); err == nil && st.Ready {
				id = st.Ranges[shard.Of(k, c.ranges)].Leader
				return nil
			}
		}
		return fmt.Errorf("no node is ready")
	})
	return c.node(id)
}

// counted returns what the leader has counted of each key in the current window. The limits must be
// so large that tokens remain.
func (c *servers) counted(limit int64, keys []quota.Key) []int64 {
	c.t.Helper()
	out := make([]int64, len(keys))
	for i, k := range keys {
		eventually(c.t, 10*time.Second, fmt.Sprintf("the leader of %v tells what remains", k), func() error {
			a, err := try(c.nodes[0], "GET", fmt.Sprintf("/v1/keys?namespace=%s&limit=%s&key=%s", k.Namespace, k.Limit, k.Key), nil)
			if err != nil {
				return err
			}
			if len(a.Counters) != 1 {
				return errors.New(a.body)
			}
			out[i] = limit - a.Counters[0].Remaining
			return nil
		})
	}
	return out
}

// judge compares the final counts of the leader with the callers' answers: it counts every admitted
// request exactly once, and a request without an answer once or not at all.
func (c *servers) judge(callers *callers, limit int64, keys []quota.Key) {
	c.t.Helper()
	told, unanswered := callers.sums(keys)
	var got []int64
	agree := func() error {
		got = c.counted(limit, keys)
		for i := range keys {
			if got[i] < told[i] || got[i] > told[i]+unanswered[i] {
				return fmt.Errorf("%v: told %d, counted %d, unanswered %d", keys[i], told[i], got[i], unanswered[i])
			}
		}
		return nil
	}
	for end := time.Now().Add(5 * time.Second); agree() != nil && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
	}
	for i, k := range keys {
		c.t.Logf("%-10s told %6d, counted %6d (%+d), unanswered %d", k.Limit, told[i], got[i], got[i]-told[i], unanswered[i])
	}
	for i, k := range keys {
		if got[i] < told[i] {
			c.t.Errorf("%v: %d of %d that callers were told are forgotten", k, told[i]-got[i], told[i])
		}
		if got[i] > told[i]+unanswered[i] {
			c.t.Errorf("%v: %d are counted beyond the %d that callers were told and the %d that got no answer",
				k, got[i]-told[i]-unanswered[i], told[i], unanswered[i])
		}
	}
}

// soak returns the number in an environment variable, for longer runs, or otherwise.
func soak(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return otherwise
}

// TestDurableLeaderKilled kills and restarts the leader of four windows under load, 10 times (make
// soak: 200), and checks that the counts neither lose nor gain a request. In every other round no
// request is in flight to the victim when it dies, so every request of that round has an answer.
func TestDurableLeaderKilled(t *testing.T) {
	testspeed.Full(t)
	t.Parallel() // mostly waits
	const few, many, raised, perNode = 2000, 1_000_000, 2_000_000, 60
	rounds := soak("SOAK_KILLS", 10)
	c := newServers(t, 8)
	c.run("version: 1\nnamespaces: {}\n")
	per := youngWindow(time.Duration(max(60, rounds)*3) * time.Second)
	c.apply(durableLimits(per, few, many))
	began := time.Now()
	keys := c.oneLeader(durableNames...)
	callers := startCallers(t, c.nodes, perNode, keys)
	lost := map[bool]int64{} // unanswered requests, by whether the round was calm
	for round := range rounds {
		time.Sleep(300*time.Millisecond + time.Duration(round%4)*333*time.Millisecond) // load between the kills; the varying pause hits different moments of a checkpoint
		victim := c.leads(keys[0])
		calm := round%2 == 0
		_, before := callers.sums(keys[:1])
		if calm {
			callers.pause(victim)
		}
		victim.kill()
		if calm {
			callers.resume(victim)
		}
		time.Sleep(time.Duration(50*(round%5)) * time.Millisecond) // the victim stays down longer each round
		c.start(victim)
		c.awaitReady(victim, 20*time.Second)
		_, after := callers.sums(keys[:1])
		lost[calm] += after[0] - before[0]
	}
	callers.stop()
	took := time.Since(began)
	t.Logf("%d rounds in %v, in one window of %v; unanswered in calm rounds: %d, in the others: %d", rounds, took.Round(time.Second), per, lost[true], lost[false])
	if age := time.Duration(time.Now().UnixNano()) % per; age < took {
		t.Fatalf("the window of %v ended %v ago, in the middle of the test: the machine is too slow for %d rounds", per, age, rounds)
	}
	told, _ := callers.sums(keys)
	if told[3] > few {
		t.Errorf("%v: callers were told %d times that they may pass, of %d", keys[3], told[3], few)
	}
	c.apply(durableLimits(per, raised, raised)) // a change keeps levels; the raised limit lets the test read the count of a used-up window
	c.judge(callers, raised, keys)
}

// TestDurableAllKilled kills all nodes at once under load, restarts them, and checks that the
// counts neither lose nor gain a request.
func TestDurableAllKilled(t *testing.T) {
	testspeed.Full(t)
	t.Parallel() // mostly waits
	const few, many, raised, perNode = 300, 1_000_000, 2_000_000, 60
	per := youngWindow(time.Hour)
	c := newServers(t, 8)
	c.run(durableLimits(per, few, many))
	keys := c.oneLeader(durableNames...)
	callers := startCallers(t, c.nodes, perNode, keys)
	rounds := max(3, soak("SOAK_KILLS", 10)/7)
	for range rounds {
		time.Sleep(1300 * time.Millisecond) // load between the kills, and a checkpoint
		for _, s := range c.nodes {
			_ = s.cmd.Process.Kill() // all, before waiting for any
		}
		for _, s := range c.nodes {
			s.kill()
		}
		for _, s := range c.nodes {
			c.start(s)
		}
		for _, s := range c.nodes {
			c.awaitReady(s, 20*time.Second)
		}
	}
	time.Sleep(time.Second) // load after the last kill
	callers.stop()
	told, _ := callers.sums(keys)
	if told[3] > few {
		t.Errorf("%v: callers were told %d times that they may pass, of %d", keys[3], told[3], few)
	}
	c.apply(durableLimits(per, raised, raised))
	c.judge(callers, raised, keys)
}

// TestDurableFullDisk checks that a node with a full disk decides as before and reports that it
// does not journal new keys.
func TestDurableFullDisk(t *testing.T) {
	const keys, perCall = 6000, 500
	c := newServers(t, 4)
	full := c.node("n3")
	dir := filepath.Join(c.dir, full.id)
	mountSmall(t, dir, "8m")
	c.run(durableLimits(youngWindow(time.Hour), 5, 1000))
	before := allow(t, full.httpAddr, key("api", "soft-above", "before"))
	if v := full.metric(t, "quorate_journal_failing"); !before.Allowed || v != 0 {
		t.Fatalf("%+v; quorate_journal_failing %v", before, v)
	}
	fillDisk(t, filepath.Join(dir, "ballast"))
	for from := 0; from < keys; from += perCall {
		var checks []fields
		for i := range perCall {
			checks = append(checks, fields{"namespace": "api", "limit": "soft-above", "key": "key" + strconv.Itoa(from+i)})
		}
		a := post(t, full, "/v1/allow:batch", fields{"checks": checks})
		if len(a.Results) != perCall {
			t.Fatalf("%d results; want %d: %s", len(a.Results), perCall, a.body)
		}
		for i, r := range a.Results {
			if r.Response == nil || !r.Response.Allowed {
				t.Fatalf("key%d: %+v", from+i, r)
			}
		}
	}
	eventually(t, 5*time.Second, full.id+" says that its journal is full", func() error {
		failing, lost := full.metric(t, "quorate_journal_failing"), full.metric(t, `quorate_keys_not_journalled_total{reason="no_room"}`)
		if said := strings.Contains(full.stderr.String(), "the journal cannot grow"); failing != 1 || lost == 0 || !said {
			return fmt.Errorf("quorate_journal_failing %v, not journalled %v, in the log: %v", failing, lost, said)
		}
		return nil
	})
	t.Logf("%v of %d keys are not journalled", full.metric(t, `quorate_keys_not_journalled_total{reason="no_room"}`), keys)
	for range 20 { // the node continues
		if d := allow(t, full.httpAddr, key("api", "soft-above", "before")); !d.Allowed {
			t.Fatalf("%+v", d)
		}
		time.Sleep(50 * time.Millisecond) // spreads the checks over a second
	}
	if err := os.Remove(filepath.Join(dir, "ballast")); err != nil {
		t.Fatal(err)
	}
}

// mountSmall mounts a file system of the given size at dir until the test ends.
func mountSmall(t *testing.T, dir, size string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "tmpfs", dir).CombinedOutput(); err != nil {
		reason := fmt.Sprintf("needs root and mount, to make a disk that can be full: %v: %s", err, out)
		if os.Getenv("CI") == "true" {
			t.Fatal(reason)
		}
		t.Skip(reason)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("umount %s: %v: %s", dir, err, out)
		}
	})
}

// fillDisk writes a file until the disk is full.
func fillDisk(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for b := make([]byte, 4096); err == nil; {
		_, err = f.Write(b)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}

// metric returns one value of GET /metrics, or -1 if the name is missing.
func (s *server) metric(t *testing.T, name string) float64 {
	t.Helper()
	res, err := httpClient.Get("http://" + s.httpAddr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if v, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			f, err := strconv.ParseFloat(v, 64)
			if err != nil {
				t.Fatalf("%s: %v", lines.Text(), err)
			}
			return f
		}
	}
	return -1
}
