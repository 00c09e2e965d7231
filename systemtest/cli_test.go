package systemtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cli runs commands against one cluster.
type cli struct {
	t    *testing.T
	base string
	dir  string
}

// run runs a command, expects the exit code, and returns the output.
func (c *cli) run(code int, args ...string) (stdout, stderr string) {
	c.t.Helper()
	out, msg, got := quorate(c.t, append(args, "--base-port", c.base)...)
	for end := time.Now().Add(leastPatience); code == 0 && got == 1 && time.Now().Before(end); {
		time.Sleep(100 * time.Millisecond) // a node may hold nothing of a hard limit for a moment; a refusal charges nothing
		out, msg, got = quorate(c.t, append(args, "--base-port", c.base)...)
	}
	if got != code {
		c.t.Fatalf("quorate %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), got, code, out, msg)
	}
	return out, msg
}

// prints runs a command, expects the exit code and want in its output, and returns the output.
func (c *cli) prints(code int, want string, args ...string) string {
	c.t.Helper()
	out, msg := c.run(code, args...)
	if !strings.Contains(out+msg, want) {
		c.t.Fatalf("quorate %s: no %q in\n%s%s", strings.Join(args, " "), want, out, msg)
	}
	return out
}

func (c *cli) file(name, text string) string {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	write(c.t, path, text)
	return path
}

func startCLI(t *testing.T, limits string) *cli {
	t.Helper()
	needBinary(t)
	base := freeBase(t)
	c := &cli{t, strconv.Itoa(base), t.TempDir()}
	startDev(t, base, t.TempDir(), "--quiet", "--ranges", "4", "--limits", c.file("first.yaml", limits))
	return c
}

const cliLimits = `version: 1
namespaces:
  api:
    limits:
      per_tenant: {rate: 1/h, burst: 4, ceiling: hard}
  web:
    limits:
      login: {rate: 1/h, burst: 2, ceiling: hard}
`

// TestCLILimits checks that the commands apply, diff, roll back and delete limits, show their
// history, and report a conflict.
func TestCLILimits(t *testing.T) {
	c := startCLI(t, cliLimits)
	text, _ := c.run(0, "limits", "get", "-o", "yaml")
	same := c.file("same.yaml", text)
	c.run(0, "limits", "diff", same)
	c.prints(0, "limits unchanged: version 1", "limits", "apply", same)

	more := c.file("more.yaml", strings.Replace(cliLimits, "burst: 4", "burst: 40", 1))
	c.prints(1, "burst  4 -> 40", "limits", "diff", more)
	c.prints(0, "the active version is 1", "limits", "apply", more, "--dry-run")
	c.prints(0, "version 1\n", "limits", "get")
	c.prints(0, "limits applied: version 2 (1 changed)", "limits", "apply", more, "--expected-version", "1", "--author", "alice", "--comment", "more for all")
	c.prints(3, "version 1 was expected, but version 2, made by alice, is active", "limits", "apply", same, "--expected-version", "1")
	c.prints(1, "burst  4 -> 40", "limits", "diff", "1", "2")
	c.prints(2, "limts", "limits", "apply", c.file("bad.yaml", strings.Replace(cliLimits, "limits:", "limts:", 1)))
	c.prints(0, "limits rolled back to version 1: version 3 (1 changed)", "limits", "rollback", "1", "--comment", "too much")
	c.prints(0, "1 limit removed: version 4", "limits", "delete", "web/login", "--yes")
	c.run(5, "limits", "delete", "web/login", "--yes")
	c.run(5, "limits", "rollback", "77")

	out, _ := c.run(0, "limits", "history", "-o", "json")
	var history struct {
		Versions []struct {
			Version, RollbackTo, Added, Changed, Removed int
			Author, Comment, At                          string
		}
	}
	if err := json.Unmarshal([]byte(strings.ReplaceAll(out, "rollback_to", "RollbackTo")), &history); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	v := history.Versions
	if len(v) != 4 || v[0].Removed != 1 || v[1].RollbackTo != 1 || v[1].Comment != "too much" || v[2].Author != "alice" || v[2].Changed != 1 || v[3].Added != 2 {
		t.Errorf("history %+v", v)
	}
	if at, err := time.Parse(time.RFC3339, v[0].At); err != nil || time.Since(at) > time.Minute {
		t.Errorf("version 4 was made at %q, %v", v[0].At, err)
	}
}

// TestCLIKeys checks that an override raises a tenant's limit, a reset clears a key, and events
// show refusals.
func TestCLIKeys(t *testing.T) {
	c := startCLI(t, cliLimits)
	events := start(t, nil, "events", "-f", "--kind", "refused", "-o", "json", "--base-port", c.base)
	eventually(t, 5*time.Second, "the nodes are watched", func() error {
		if n := strings.Count(events.stderr.String(), "quorate: watching"); n != 1 {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
	eventually(t, 5*time.Second, "acme has its four", func() error {
		if _, msg, code := quorate(t, "allow", "api/per_tenant", "acme", "--cost", "4", "--base-port", c.base); code != 0 {
			return fmt.Errorf("exit code %d %s", code, msg)
		}
		return nil
	})
	c.prints(1, "why over_limit", "allow", "api/per_tenant", "acme")
	c.prints(0, "scale 3x until", "overrides", "set", "api/per_tenant", "acme", "--scale", "3x", "--expires", "1h", "--comment", "launch")
	c.prints(0, "launch", "overrides", "get", "api/per_tenant")
	c.prints(0, "override: scale 3x", "keys", "get", "api/per_tenant", "acme")
	c.prints(1, "why over_limit", "allow", "api/per_tenant", "acme") // an override refills nothing
	c.prints(0, "acme reset", "keys", "reset", "api/per_tenant", "acme", "--yes")
	eventually(t, 5*time.Second, "acme has three times as much", func() error {
		if out, msg, code := quorate(t, "allow", "api/per_tenant", "acme", "--cost", "12", "--base-port", c.base); code != 0 {
			return fmt.Errorf("exit code %d %s%s", code, out, msg)
		}
		return nil
	})
	c.prints(0, "api/per_tenant", "keys", "top", "api/per_tenant")
	c.prints(0, "banned", "overrides", "set", "web/login", "mallory", "--ban")
	c.prints(1, "why banned", "allow", "web/login", "mallory")
	c.prints(0, "1 override deleted", "overrides", "delete", "web/login", "mallory")
	eventually(t, 5*time.Second, "mallory may log in again", func() error {
		if out, _, code := quorate(t, "allow", "web/login", "mallory", "--base-port", c.base); code != 0 {
			return fmt.Errorf("exit code %d %s", code, out)
		}
		return nil
	})

	eventually(t, 5*time.Second, "the refusals were told", func() error {
		out := events.stdout.String()
		if !strings.Contains(out, `"key":"acme"`) || !strings.Contains(out, `"why":"banned"`) || strings.Contains(out, "tokens_served") {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	if took, code := events.interrupt(syscall.SIGINT, 5*time.Second); code != 0 || took > time.Second {
		t.Errorf("events: exit code %d after %v", code, took)
	}
	for line := range strings.Lines(events.stdout.String()) {
		var e struct {
			Node  string
			Event struct{ Kind string }
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Node == "" || e.Event.Kind != "refused" {
			t.Errorf("%v: %s", err, line)
		}
	}
}

// TestCLIOverridesFile checks that more overrides than fit in one call can be set, read back, and
// applied again as read.
func TestCLIOverridesFile(t *testing.T) {
	c := startCLI(t, cliLimits)
	var b bytes.Buffer
	b.WriteString("overrides:\n")
	const n = 2500
	for i := range n {
		fmt.Fprintf(&b, "  - {namespace: api, limit: per_tenant, key: tenant-%04d, scale: 2x}\n", i)
	}
	c.prints(0, "2500 overrides set\n", "overrides", "apply", c.file("overrides.yaml", b.String()))
	c.prints(0, "100 of 2500 are shown", "overrides", "get")
	for _, form := range []string{"table", "yaml", "json"} {
		out, msg := c.run(0, "overrides", "get", "--max", "0", "-o", form)
		if got := strings.Count(out, "tenant-"); got != n || msg != "" {
			t.Errorf("%s: %d of %d overrides; %s", form, got, n, msg)
		}
		switch form {
		case "json":
			var all struct {
				Overrides []json.RawMessage
				Total     int
			}
			if err := json.Unmarshal([]byte(out), &all); err != nil || len(all.Overrides) != n || all.Total != n {
				t.Errorf("%d overrides, total %d, %v", len(all.Overrides), all.Total, err)
			}
		case "yaml":
			c.prints(0, "2500 overrides set\n", "overrides", "apply", c.file("again.yaml", out))
		}
	}
}

// TestCLIConvert checks that the output of convert can be applied and takes effect.
func TestCLIConvert(t *testing.T) {
	c := startCLI(t, cliLimits)
	slas := c.file("slas.yaml", "slas:\n  - id: get-product\n    match: {methods: [GET], pathPattern: /product/*}\n    tiers: [{period: 31536000, threshold: 2}]\n")
	converted := filepath.Join(c.dir, "converted.yaml")
	out, msg, code := quorate(t, "convert", "--from", "slas", slas, "--out", converted)
	if code != 1 || out != "" || !strings.Contains(msg, "slas[0]") {
		t.Fatalf("exit code %d\n%s%s", code, out, msg)
	}
	if _, err := os.Stat(converted); err != nil {
		t.Fatal(err)
	}
	c.prints(2, "would remove 2 limits of version 1: ", "limits", "apply", converted)
	c.prints(0, "limits applied: version 2 (1 added, 2 removed)", "limits", "apply", converted, "--yes")
	for _, want := range []int{0, 0, 1} {
		c.run(want, "allow", "slas/get-product", "acme")
	}
	c.run(5, "allow", "web/login", "x")
}

// TestCLICalls checks that reservations and in-flight counts persist between commands.
func TestCLICalls(t *testing.T) {
	c := startCLI(t, cliLimits+"      jobs: {in_flight: 1, lease: 1m}\n")
	out, _ := c.run(0, "reserve", "api/per_tenant", "r", "--cost", "4", "--ttl", "1m")
	handle, _, _ := strings.Cut(out, "\n")
	c.run(1, "allow", "api/per_tenant", "r")
	c.prints(0, "settled", "settle", handle, "--used", "1")
	c.run(5, "settle", handle)
	eventually(t, 5*time.Second, "three came back", func() error {
		if out, _, code := quorate(t, "allow", "api/per_tenant", "r", "--cost", "3", "--base-port", c.base); code != 0 {
			return fmt.Errorf("exit code %d %s", code, out)
		}
		return nil
	})
	out, _ = c.run(0, "acquire", "web/jobs", "j")
	handle, _, _ = strings.Cut(out, "\n")
	c.run(1, "acquire", "web/jobs", "j")
	c.prints(0, "released", "release", handle)
	eventually(t, 5*time.Second, "the place is free", func() error {
		if out, _, code := quorate(t, "acquire", "web/jobs", "j", "--base-port", c.base); code != 0 {
			return fmt.Errorf("exit code %d %s", code, out)
		}
		return nil
	})
}

// TestCLILoadClient checks that load through the in-process client prints the same report, plus the
// means by which the client decided.
func TestCLILoadClient(t *testing.T) {
	c := startCLI(t, cliLimits)
	out, _ := c.run(0, "load", "--client", "--limit", "api/per_tenant", "--rate", "400", "--duration", "500ms", "--keys", "10", "-o", "json")
	var r struct {
		Sent, Answered, Allowed, Errors int64
		Modes, Why                      map[string]int64
		Nodes                           []struct{ Calls int64 }
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	decided, calls := int64(0), int64(0)
	for _, n := range r.Modes {
		decided += n
	}
	for _, n := range r.Nodes {
		calls += n.Calls
	}
	if r.Sent != 200 || r.Answered != 200 || r.Errors != 0 || decided != 200 || calls != 200 || len(r.Nodes) != 3 {
		t.Errorf("%+v: want 200 checks, all decided by the clients of three nodes", r)
	}
	if r.Allowed == 0 || r.Allowed > 40 {
		t.Errorf("%d of ten keys with four tokens each passed", r.Allowed)
	}
}
