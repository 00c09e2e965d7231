package resp

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/api/auth"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
)

// TestTransaction checks the replies to MULTI and EXEC that clients of Redis expect, and when commands run.
func TestTransaction(t *testing.T) {
	throttle, ok := array("CL.THROTTLE", "k", "1", "1", "1"), "*5\r\n:0\r\n:2\r\n:0\r\n:-1\r\n:0\r\n"
	const queued = "+QUEUED\r\n"
	const abort = "-EXECABORT Transaction discarded because of previous errors.\r\n"
	for _, c := range []struct {
		what  string
		in    string
		want  string
		asked int
		codes string
	}{
		{"as redis-py's pipeline", array("MULTI") + throttle + array("PING") + throttle + array("EXEC"), "+OK\r\n" + strings.Repeat(queued, 3) + "*3\r\n" + ok + "+PONG\r\n" + ok, 2, "ok allowed ok allowed ok ok"},
		{"nothing in it", array("MULTI") + array("EXEC"), "+OK\r\n*0\r\n", 0, "ok ok ok"},
		{"without its end", array("MULTI") + throttle, "+OK\r\n" + queued, 0, "ok ok"},
		{"discarded", array("MULTI") + throttle + array("DISCARD") + throttle, "+OK\r\n" + queued + "+OK\r\n" + ok, 1, "ok ok allowed ok"},
		{"two of them", strings.Repeat(array("MULTI")+throttle+array("EXEC"), 2), strings.Repeat("+OK\r\n"+queued+"*1\r\n"+ok, 2), 2, "ok allowed ok ok allowed ok ok"},
		{"an error when it runs", array("MULTI") + array("CL.THROTTLE", "k", "x", "1", "1") + throttle + array("EXEC"), "+OK\r\n" + queued + queued + "*2\r\n-ERR max_burst: x; must be 0 to 4398046511103\r\n" + ok, 1, "ok invalid allowed ok ok"},
		{"an unknown command", array("MULTI") + throttle + array("GET", "x") + throttle + array("EXEC") + throttle, "+OK\r\n" + queued + "-ERR unknown command 'GET' (nodes store no values: call QUORATE.ALLOW or CL.THROTTLE); known: " + names() + "\r\n" + queued + abort + ok, 1, "ok invalid invalid allowed ok"},
		{"wrong number of arguments", array("MULTI") + throttle + array("ECHO") + array("EXEC"), "+OK\r\n" + queued + "-ERR wrong number of arguments for 'echo' command\r\n" + abort, 0, "ok invalid invalid ok"},
		{"nested", array("MULTI") + throttle + array("MULTI") + array("WATCH", "k") + array("EXEC"), "+OK\r\n" + queued + "-ERR MULTI calls can not be nested\r\n-ERR WATCH inside MULTI is not allowed\r\n*1\r\n" + ok, 1, "ok invalid invalid allowed ok ok"},
		{"no MULTI", array("EXEC") + array("DISCARD"), "-ERR EXEC without MULTI\r\n-ERR DISCARD without MULTI\r\n", 0, "invalid invalid ok"},
		{"WATCH", array("WATCH", "a", "b") + array("UNWATCH") + array("MULTI") + array("UNWATCH") + array("EXEC"), "+OK\r\n+OK\r\n+OK\r\n" + queued + "*1\r\n+OK\r\n", 0, "ok ok ok ok ok ok"},
	} {
		n, count := &fakeNode{decision: quota.Decision{Allowed: true, Why: quota.WhyHeld}}, counted{}
		s := New(n, count.options())
		if got := say(t, s, c.in+array("QUIT")); got != c.want+"+OK\r\n" {
			t.Errorf("%s:\ngot  %q\nwant %q", c.what, got, c.want+"+OK\r\n")
		}
		if len(n.asked) != c.asked || strings.Join(count.codes, " ") != c.codes {
			t.Errorf("%s: asked %v, counted %v; want %d asked, counted %s", c.what, n.asked, count.codes, c.asked, c.codes)
		}
	}
}

// TestTransactionBounds checks the bounds of queued bytes per connection, per caller and in total,
// and that the end of a connection frees its queue.
func TestTransactionBounds(t *testing.T) {
	n := &fakeNode{decision: quota.Decision{Allowed: true, Why: quota.WhyHeld}}
	var owner atomic.Value
	owner.Store("a")
	s := New(n, Options{Owner: func(*auth.Caller, string) string { return owner.Load().(string) }})
	one := array("ECHO", strings.Repeat("x", 999))
	fits := maxQueued/len(one) - 1
	rest := maxQueued - fits*len(one)
	whole := array("ECHO", strings.Repeat("x", rest-len(array("ECHO", "1000"))+1)) // its length has four digits
	full := array("MULTI") + strings.Repeat(one, fits) + whole
	if got := len(full) - len(array("MULTI")); got != maxQueued {
		t.Fatalf("the test fills %d bytes; want %d", got, maxQueued)
	}
	got := say(t, s, full+array("EXEC")+full+array("PING")+array("PING")+array("EXEC")+array("QUIT"))
	begin := "+OK\r\n" + strings.Repeat("+QUEUED\r\n", fits+1)
	if !strings.HasPrefix(got, fmt.Sprintf("%s*%d\r\n$999\r\nx", begin, fits+1)) {
		t.Errorf("what just fits: %.200q", got)
	}
	if want := begin + "-ERR MULTI: more than 524288 bytes of commands before EXEC; send fewer commands in a transaction, or none\r\n+QUEUED\r\n-EXECABORT Transaction discarded because of previous errors.\r\n+OK\r\n"; !strings.HasSuffix(got, want) {
		t.Errorf("one more: %q", got[max(0, len(got)-len(want)-50):])
	}

	// Many connections at once: the server refuses commands beyond maxQueuedOfOne and maxQueuedAll.
	more := func(by, holds string) {
		t.Helper()
		owner.Store(by)
		want := "+OK\r\n-TRYAGAIN the transactions of " + holds + "\r\n-EXECABORT Transaction discarded because of previous errors.\r\n+OK\r\n"
		if got := say(t, s, array("MULTI")+array("PING")+array("EXEC")+array("QUIT")); got != want {
			t.Errorf("one connection of %s more: %q", by, got)
		}
	}
	var held []*talk
	for i := range maxQueuedAll / maxQueued {
		if by := "abcd"[4*i*maxQueued/maxQueuedAll:][:1]; by != owner.Load() {
			more("a", "a hold 16777216 bytes of commands, the maximum for one caller")
			owner.Store(by)
		}
		k := newTalk(t, s)
		held = append(held, k)
		go func() { _, _ = io.WriteString(k, full) }()
		for range fits + 2 {
			if line, err := k.r.ReadString('\n'); err != nil || line != "+OK\r\n" && line != "+QUEUED\r\n" {
				t.Fatalf("%q, %v", line, err)
			}
		}
	}
	more("e", "all connections hold 67108864 bytes of commands, the maximum")
	for _, k := range held {
		_ = k.Close()
	}
	s.wait.Wait()
	if got := say(t, s, array("MULTI")+array("PING")+array("EXEC")+array("QUIT")); !strings.Contains(got, "+PONG") || s.queued.Held() != 0 {
		t.Errorf("when they have gone: %q, %d bytes are counted", got, s.queued.Held())
	}
}

// TestTransactionOfStrangers checks that the server queues nothing for callers without the permission check.
func TestTransactionOfStrangers(t *testing.T) {
	g := newGuarded(t)
	token := g.token(t, "redis", time.Hour)
	g.bind(t, "token:redis", "checker", rbac.Namespace(Namespace))
	k := newTalk(t, g.Server)
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"MULTI"}, "-NOAUTH MULTI: anonymous:anonymous may check no limit; identify the caller with AUTH, HELLO or a client certificate"},
		{[]string{"EXEC"}, "-ERR EXEC without MULTI"},
		{[]string{"AUTH", token}, "+OK"},
		{[]string{"MULTI"}, "+OK"},
		{[]string{"CL.THROTTLE", "k", "1", "1", "1"}, "+QUEUED"},
		{[]string{"QUORATE.ALLOW", "web", "api", "k"}, "+QUEUED"},
		{[]string{"EXEC"}, "*2"},
	} {
		if got := k.ask(c.words...); got != c.want {
			t.Errorf("%v: %q; want %q", c.words, got, c.want)
		}
	}
	if len(g.node.asked) != 1 || g.node.asked[0].Key.Namespace != Namespace {
		t.Errorf("asked %v; want that of the namespace that the caller may check in", g.node.asked)
	}
	if want := "MULTI anonymous:anonymous pipe, QUORATE.ALLOW token:redis pipe"; strings.Join(g.denied, ", ") != want {
		t.Errorf("denied %q; want %q", g.denied, want)
	}
}

// TestTransactionsBesideOthers checks that concurrent transactions of several connections each get
// complete answers in order.
func TestTransactionsBesideOthers(t *testing.T) {
	s := New(newSole(t), Options{})
	var wg sync.WaitGroup
	for range 8 {
		k := newTalk(t, s)
		wg.Go(func() {
			go func() {
				_, _ = io.WriteString(k, strings.Repeat(array("MULTI")+array("CL.THROTTLE", "k", "99", "1", "3600")+array("ECHO", "x")+array("EXEC"), 50))
			}()
			for range 50 {
				for range 4 {
					if err := readReply(k.r, 0); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	c := connect(t, s)
	go func() { _, _ = io.WriteString(c, array("CL.THROTTLE", "k", "99", "1", "3600")) }()
	r := bufio.NewReader(c)
	if line, err := r.ReadString('\n'); err != nil || line != "*5\r\n" {
		t.Fatal(line, err)
	}
	if line, _ := r.ReadString('\n'); line != ":1\r\n" {
		t.Errorf("after 400 calls of 100 that pass: %q", line)
	}
}
