package resp

import (
	"context"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/api/apitest"
	"github.com/quorate/quorate/internal/quota"
)

// tool returns the path of a program of the package redis-tools.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		return path
	case os.Getenv("CI") != "":
		t.Fatalf("%s is missing: apt-get install redis-tools", name)
	default:
		t.Skipf("%s is missing: apt-get install redis-tools", name)
	}
	return ""
}

// soleNode decides with the real aggregator of a node without leaders, at one moment.
type soleNode struct {
	mu  sync.Mutex
	agg *aggregator.Aggregator
	now quota.Time
	set *quota.Limits
}

func newSole(t *testing.T, limits ...quota.Limit) *soleNode {
	n := &soleNode{now: quota.Time(time.Hour), set: set(t, limits...)}
	n.agg = aggregator.New(aggregator.Config{Self: "n1", Ranges: 1}, 0)
	n.agg.SetLimits(0, n.set)
	return n
}

func (n *soleNode) Limits() *quota.Limits { return n.set }

func (n *soleNode) AdmitInline(limit quota.LimitName, owner string) bool {
	return n.agg.AdmitInline(limit, owner)
}

func (n *soleNode) Decide(reqs []quota.Request, out []quota.Decision) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	var c aggregator.Call
	c.Reset(reqs, out)
	c.Final, c.Alone = true, true
	return n.agg.Decide(func() quota.Time { return n.now }, &c)
}

func (n *soleNode) Batch() func([]quota.Call) { return apitest.Batch(n.Decide, nil) }

// run returns the output of a program.
func run(t *testing.T, program, addr, stdin string, args ...string) string {
	t.Helper()
	host, port, _ := net.SplitHostPort(addr)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append([]string{"-h", host, "-p", port}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
	return string(out)
}

// TestRedisCLI runs redis-cli in both versions of the protocol.
func TestRedisCLI(t *testing.T) {
	cli := tool(t, "redis-cli")
	few := quota.Limit{LimitName: quota.LimitName{Namespace: "web", Limit: "few"}, Burst: 2, Rate: quota.Rate{Tokens: 1, Per: time.Second}}
	s := New(newSole(t, few), Options{})
	addr, _ := listening(t, s)
	in := "PING\nQUORATE.ALLOW web few ann\nQUORATE.ALLOW web few ann 3\nQUORATE.ALLOW web few ann\nQUORATE.ALLOW web few ann\n" +
		"CL.THROTTLE \"a b\" 1 1 60\nCL.THROTTLE \"a b\" 1 1 60 2\nCL.THROTTLE \"a b\" 1 1 60\nCL.THROTTLE \"a b\" 1 1 60\nCL.THROTTLE \"a b\" 1 1 60 0\nGET x\nQUORATE.ALLOW web none k\n"
	want := []string{
		"PONG", "1 1 0 1000 estimate few", "0 1 -1 0 over_burst few", "1 0 0 2000 estimate few", "0 0 1000 2000 over_limit few",
		"0 2 1 -1 60", "1 2 1 60 60", "0 2 0 -1 120", "1 2 0 60 120", "0 2 0 -1 120",
		"ERR unknown command 'GET' (nodes store no values: call QUORATE.ALLOW or CL.THROTTLE); known: " + names(), "", "NOLIMIT unknown limit web/none; namespace \"web\" has: few", "",
	}
	for _, version := range []string{"-2", "-3"} {
		s.node = newSole(t, few) // nobody is connected
		got := run(t, cli, addr, in, version)
		lines := strings.Split(got, "\n")
		at := 0
		for _, w := range want {
			n := max(len(strings.Fields(w)), 1)
			if strings.HasPrefix(w, "NOLIMIT") || strings.HasPrefix(w, "ERR") {
				n = 1
			}
			if at+n > len(lines) || strings.Join(lines[at:at+n], " ") != w {
				t.Fatalf("redis-cli %s: line %d is not %q:\n%s", version, at+1, w, got)
			}
			at += n
		}
	}
	s.node = newSole(t, few)
	const inMulti = "MULTI\nCL.THROTTLE a 1 1 60\nQUORATE.ALLOW web few ann 9\nQUORATE.ALLOW web none k\nCL.THROTTLE a 1 1 60 2\nEXEC\nMULTI\nCL.THROTTLE a 1 1 60\nDISCARD\nWATCH a\nCL.THROTTLE a 1 1 60\n"
	wantMulti := "OK QUEUED QUEUED QUEUED QUEUED 0 2 1 -1 60 0 2 -1 0 over_burst few NOLIMIT unknown limit web/none; namespace \"web\" has: few  1 2 1 60 60 OK QUEUED OK OK 0 2 0 -1 120 "
	if got := strings.ReplaceAll(run(t, cli, addr, inMulti), "\n", " "); got != wantMulti {
		t.Errorf("a transaction:\ngot  %q\nwant %q", got, wantMulti)
	}
	if got := run(t, cli, addr, "", "--no-auth-warning", "-a", "x", "PING"); !strings.Contains(got, "authentication is off") || !strings.Contains(got, "PONG") {
		t.Errorf("with a password: %s", got)
	}
	if got := run(t, cli, addr, array("PING")+array("ECHO", "x"), "--pipe"); !strings.Contains(got, "errors: 0, replies: 2") {
		t.Errorf("redis-cli --pipe: %s", got)
	}
}

// TestRedisBenchmark checks that the pipelines of redis-benchmark over many connections are
// answered without an error, and that each command is counted once.
func TestRedisBenchmark(t *testing.T) {
	bench := tool(t, "redis-benchmark")
	var n counted
	addr, _ := listening(t, New(newSole(t), n.options()))
	const calls = 4000
	out := run(t, bench, addr, "", "-n", "4000", "-P", "16", "-c", "32", "-e", "--csv", "CL.THROTTLE", "k", "999", "1", "3600")
	if !regexp.MustCompile(`"CL.THROTTLE k 999 1 3600","[0-9.]+"`).MatchString(out) {
		t.Errorf("%s", out)
	}
	by := map[string]int{}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.codes {
		by[c]++
	}
	if by[codeAllowed] != 1000 || by[codeAllowed]+by[codeRefused] < calls || by[codeAllowed]+by[codeRefused] > calls+32*16 {
		t.Errorf("%v; want 1000 allowed of about %d", by, calls)
	}
}
