package systemtest

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/accounts"
	"github.com/quorate/quorate/internal/testspeed"
)

const noLimits = "version: 1\nnamespaces: {}\n"

// builds runs the program of examples/builds until it exits.
func builds(t *testing.T, program string, args ...string) (out string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	code = exitCode(cmd.Run())
	if code != 0 && code != 3 {
		t.Fatalf("builds %v: exit code %d\n%s", args, code, &stderr)
	}
	return stdout.String(), code
}

// TestBuilds checks the example: ten builds a day through any node, none charged twice, also after
// kill -9 of all nodes.
func TestBuilds(t *testing.T) {
	testspeed.Full(t)
	t.Parallel() // mostly waits
	c := newServers(t, 4)
	program := filepath.Join(t.TempDir(), "builds")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../examples/builds").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	c.run(noLimits)
	const user = "al|ice~" // any name is valid
	midnight := time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	if left := time.Until(midnight); left < 40*time.Second { // the quota refills at midnight
		time.Sleep(left)
		midnight = midnight.Add(24 * time.Hour)
	}
	for i := 1; i <= 10; i++ {
		out, code := builds(t, program, "-nodes", c.nodes[i%3].grpc, user, strconv.Itoa(i))
		if want := fmt.Sprintf("build %d of %s may start; %d of 10 were left\n", i, user, 10-i); out != want || code != 0 {
			t.Errorf("build %d: %q, exit code %d; want %q", i, out, code, want)
		}
	}
	same := func(when string) {
		t.Helper()
		out, code := builds(t, program, "-nodes", c.addrs(), user, "11")
		if want := user + " has had all builds of today; more at " + midnight.Format(time.RFC3339) + "\n"; out != want || code != 3 {
			t.Errorf("%s: the eleventh: %q, exit code %d; want %q", when, out, code, want)
		}
		out, code = builds(t, program, "-nodes", c.addrs(), user, "4")
		if want := fmt.Sprintf("build 4 of %s may start (it was charged before); 6 of 10 were left\n", user); out != want || code != 0 {
			t.Errorf("%s: the fourth again: %q, exit code %d; want %q", when, out, code, want)
		}
	}
	same("at first")
	c.nodes[0].kill()
	same("without n1")
	c.nodes[1].kill()
	c.nodes[2].kill()
	for _, s := range c.nodes {
		c.start(s)
	}
	for _, s := range c.nodes {
		c.awaitReady(s, 15*time.Second)
	}
	same("after the death of all")
	if out, code := builds(t, program, "-nodes", c.addrs(), "bob", "11"); !strings.Contains(out, "9 of 10 were left") || code != 0 {
		t.Errorf("somebody else: %q, exit code %d", out, code)
	}
}

// TestAccountsThroughKills checks that the Go client survives the kill of one node after the other
// while it charges accounts: no call fails, and each is charged exactly once.
func TestAccountsThroughKills(t *testing.T) {
	testspeed.Full(t)
	t.Parallel() // mostly waits
	c := newServers(t, 4)
	c.run(noLimits)
	const workers, each, start = 4, 5, 1_000_000
	q, err := client.New(t.Context(), strings.Split(c.addrs(), ","), client.WithMode(client.Remote))
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	app := accounts.Register(q, "test", accounts.Options{ResourceTypes: []string{"units"}, Timeout: 30 * time.Second})
	config, err := app.LoadPoliciesManual(t.Context(), "project:test", "1", &quoratev1.PolicyConfig{Policies: []*quoratev1.PolicyEntry{{
		Key: &quoratev1.PolicyKey{Name: "p", ResourceType: "units"}, Policy: &quoratev1.Policy{Default: start, Limit: start},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	var ids []*quoratev1.AccountID
	for i := range each {
		ids = append(ids, app.AccountID("project:test", "", "a"+strconv.Itoa(i), "units"))
	}
	charge := func(request string, i int) (*quoratev1.ApplyOpsResponse, error) {
		return app.ApplyOps(t.Context(), request, 0, []*quoratev1.Op{
			{AccountId: ids[i], PolicyId: app.PolicyID(config, "", "p", "units"), Delta: -1},
			{AccountId: ids[(i+1)%each], PolicyId: app.PolicyID(config, "", "p", "units"), Delta: -2}, // mostly in another range
		})
	}
	var done atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; ; i += workers {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := charge(fmt.Sprintf("r%d", i), i%each); err != nil {
					t.Errorf("request %d: %v", i, err)
					return
				}
				done.Add(1)
			}
		})
	}
	for _, s := range c.nodes {
		time.Sleep(time.Second) // load between the kills
		s.kill()
		time.Sleep(time.Second) // load while it is down
		c.start(s)
		c.awaitReady(s, 15*time.Second)
	}
	eventually(t, time.Second, "a hundred requests were answered", func() error {
		if n := done.Load(); n < 100 && !t.Failed() {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	close(stop)
	wg.Wait()
	res, err := app.GetAccounts(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	var spent int64
	for _, a := range res.Accounts {
		spent += start - a.ProjectedBalance
	}
	t.Logf("%d requests through three deaths", done.Load())
	if spent != 3*done.Load() {
		t.Errorf("%d units are spent; %d requests of 3 were answered", spent, done.Load())
	}
	if res, err := charge("r0", 0); err != nil || !res.Repeated {
		t.Errorf("the first request again: %v, %v", res, err)
	}
}
