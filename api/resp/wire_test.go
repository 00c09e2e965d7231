package resp

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/api/auth"
	"github.com/quorate/quorate/internal/quota"
)

// TestWire compares the bytes of every answer with what Redis clients read.
func TestWire(t *testing.T) {
	const hello2 = "*14\r\n$6\r\nserver\r\n$7\r\nquorate\r\n$7\r\nversion\r\n$5\r\n7.2.0\r\n$5\r\nproto\r\n:2\r\n$2\r\nid\r\n:1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n"
	hello3 := strings.NewReplacer("*14", "%7", ":2", ":3").Replace(hello2)
	for _, c := range []struct {
		what string
		in   string
		want string
		code string // of the first command
	}{
		{"ping", array("PING"), "+PONG\r\n", "ok"},
		{"ping in any case", array("pInG"), "+PONG\r\n", "ok"},
		{"ping with words", array("PING", "a b"), "$3\r\na b\r\n", "ok"},
		{"ping typed", "PING\r\n", "+PONG\r\n", "ok"},
		{"ping typed, with spaces and without a carriage return", "  ping \thi\n", "$2\r\nhi\r\n", "ok"},
		{"nothing", "\r\n*0\r\n" + array("PING"), "+PONG\r\n", "ok"},
		{"echo of bytes", array("ECHO", "\x00\xff\r\n"), "$4\r\n\x00\xff\r\n\r\n", "ok"},
		{"empty argument", array("ECHO", ""), "$0\r\n\r\n", "ok"},
		{"hello", array("HELLO"), hello2, "ok"},
		{"hello 2", array("HELLO", "2"), hello2, "ok"},
		{"hello 3", array("HELLO", "3"), hello3, "ok"},
		{"hello 3 with a name", array("HELLO", "3", "SETNAME", "me") + array("CLIENT", "GETNAME"), hello3 + "$2\r\nme\r\n", "ok"},
		{"hello 4", array("HELLO", "4"), "-NOPROTO unsupported protocol version 4; supported: 2 and 3\r\n", "invalid"},
		{"hello and nonsense", array("HELLO", "3", "SETNAME") + array("CLIENT", "GETNAME"), "-ERR syntax error in HELLO at 'SETNAME'; write HELLO [2|3 [AUTH user token] [SETNAME name]]\r\n$-1\r\n", "invalid"},
		{"no name in RESP3", array("HELLO", "3") + array("CLIENT", "GETNAME"), hello3 + "_\r\n", "ok"},
		{"auth without authentication", array("AUTH", "x"), "-ERR AUTH: authentication is off on this node; leave the token out, or turn it on (auth.mode)\r\n", "invalid"},
		{"select 0", array("SELECT", "0"), "+OK\r\n", "ok"},
		{"select 1", array("SELECT", "1"), "-ERR DB index is out of range; only 0 exists\r\n", "invalid"},
		{"client", array("CLIENT", "SETNAME", "me") + array("client", "setinfo", "LIB-NAME", "x") + array("CLIENT", "ID"), "+OK\r\n+OK\r\n:1\r\n", "ok"},
		{"client with a bad name", array("CLIENT", "SETNAME", "a b"), "-ERR CLIENT SETNAME: a name has at most 128 bytes, and no spaces\r\n", "invalid"},
		{"client and nonsense", array("CLIENT", "TRACKING", "ON"), "-ERR unknown subcommand 'TRACKING' of CLIENT, or wrong number of arguments; known: ID GETNAME SETNAME SETINFO INFO\r\n", "invalid"},
		{"command", array("COMMAND", "COUNT"), ":16\r\n", "ok"},
		{"command info", array("COMMAND", "INFO", "quorate.allow", "GET"), "*2\r\n*6\r\n$13\r\nquorate.allow\r\n:-4\r\n*1\r\n+fast\r\n:3\r\n:3\r\n:1\r\n*-1\r\n", "ok"},
		{"command docs", array("COMMAND", "DOCS", "ping", "GET"), "*2\r\n$4\r\nping\r\n*4\r\n$7\r\nsummary\r\n$12\r\nanswers PONG\r\n$5\r\ngroup\r\n$7\r\ngeneric\r\n", "ok"},
		{"command and nonsense", array("COMMAND", "GETKEYS"), "-ERR unknown subcommand 'GETKEYS' of COMMAND; known: COUNT DOCS INFO\r\n", "invalid"},
		{"another command", array("GET", "x\r\ny"), "-ERR unknown command 'GET' (nodes store no values: call QUORATE.ALLOW or CL.THROTTLE); known: AUTH CL.THROTTLE CLIENT COMMAND DISCARD ECHO EXEC HELLO INFO MULTI PING QUIT QUORATE.ALLOW SELECT UNWATCH WATCH\r\n", "invalid"},
		{"an error has one line", array("a\r\nb\x00"), "-ERR unknown command 'a  b ' (nodes store no values: call QUORATE.ALLOW or CL.THROTTLE); known: AUTH CL.THROTTLE CLIENT COMMAND DISCARD ECHO EXEC HELLO INFO MULTI PING QUIT QUORATE.ALLOW SELECT UNWATCH WATCH\r\n", "invalid"},
		{"too few arguments", array("ECHO"), "-ERR wrong number of arguments for 'echo' command\r\n", "invalid"},
		{"too many arguments", array("ECHO", "a", "b"), "-ERR wrong number of arguments for 'echo' command\r\n", "invalid"},
	} {
		var n counted
		got := say(t, New(&fakeNode{}, n.options()), c.in+array("QUIT"))
		if got != c.want+"+OK\r\n" {
			t.Errorf("%s:\ngot  %q\nwant %q", c.what, got, c.want+"+OK\r\n")
		}
		if n.codes[0] != c.code {
			t.Errorf("%s: counted as %v; want %s first", c.what, n.codes, c.code)
		}
	}
}

// TestAllow checks the six values of QUORATE.ALLOW.
func TestAllow(t *testing.T) {
	limits := set(t, quota.Limit{
		LimitName: quota.LimitName{Namespace: "web", Limit: "api"}, Burst: 5, Rate: quota.Rate{Tokens: 1, Per: time.Second},
	})
	for _, c := range []struct {
		what string
		args []string
		d    quota.Decision
		want string
		code string
		cost int64
	}{
		{
			"allowed",
			[]string{"web", "api", "k"},
			quota.Decision{Allowed: true, Why: quota.WhyHeld, Remaining: 4, ResetAfter: 1500 * time.Microsecond},
			"*6\r\n:1\r\n:4\r\n:0\r\n:2\r\n$4\r\nheld\r\n$3\r\napi\r\n", "allowed", 1,
		},
		{"a cost", []string{"web", "api", "k", "3"}, quota.Decision{Allowed: true, Why: quota.WhyEstimate}, "*6\r\n:1\r\n:0\r\n:0\r\n:0\r\n$8\r\nestimate\r\n$3\r\napi\r\n", "allowed", 3},
		{"asked for nothing", []string{"web", "api", "k", "0"}, quota.Decision{Why: quota.WhyOverLimit, RetryAfter: time.Second}, "*6\r\n:0\r\n:0\r\n:1000\r\n:0\r\n$10\r\nover_limit\r\n$3\r\napi\r\n", "refused", 0},
		{"refused", []string{"web", "api", "k"}, quota.Decision{Why: quota.WhyOverLimit, RetryAfter: time.Nanosecond, ResetAfter: time.Second}, "*6\r\n:0\r\n:0\r\n:1\r\n:1000\r\n$10\r\nover_limit\r\n$3\r\napi\r\n", "refused", 1},
		{"refused for ever", []string{"web", "api", "k", "9"}, quota.Decision{Why: quota.WhyOverBurst, RetryAfter: 1<<63 - 1, Remaining: 5}, "*6\r\n:0\r\n:5\r\n:-1\r\n:0\r\n$10\r\nover_burst\r\n$3\r\napi\r\n", "refused", 9},
		{"no limit", []string{"web", "other", "k"}, quota.Decision{}, "-NOLIMIT unknown limit web/other; namespace \"web\" has: api\r\n", "no_limit", 1},
		{"a mistyped limit", []string{"web", "apii", "k"}, quota.Decision{}, "-NOLIMIT unknown limit web/apii; did you mean \"web/api\"? namespace \"web\" has: api\r\n", "no_limit", 1},
		{"not decided", []string{"web", "api", "k"}, quota.Decision{Allowed: true}, "-TRYAGAIN the node could not decide\r\n", "unavailable", 1},
		{"a name that is none", []string{"web", "@inline.bucket.soft.1.1.1", "k"}, quota.Decision{}, `-ERR limit: "@inline.bucket.soft.1.1.1" has '@' at byte 0; only a-z A-Z 0-9 . _ - are allowed` + "\r\n", "invalid", -1},
		{"no namespace", []string{"", "api", "k"}, quota.Decision{}, "-ERR namespace: is empty; must be 1 to 128 of a-z A-Z 0-9 . _ -\r\n", "invalid", -1},
		{"no key", []string{"web", "api", ""}, quota.Decision{}, "-ERR key: is empty; must be 1 to 1024 bytes\r\n", "invalid", -1},
		{"a long key", []string{"web", "api", strings.Repeat("k", 1025)}, quota.Decision{}, "-ERR key: is 1025 bytes; at most 1024\r\n", "invalid", -1},
		{"a key of bytes", []string{"web", "api", "\xff"}, quota.Decision{}, "-ERR key: is not UTF-8\r\n", "invalid", -1},
		{"a cost below 0", []string{"web", "api", "k", "-1"}, quota.Decision{}, "-ERR cost: -1; must be 0 to 4398046511104\r\n", "invalid", -1},
		{"a cost that is none", []string{"web", "api", "k", "1e3"}, quota.Decision{}, "-ERR cost: 1e3; must be 0 to 4398046511104\r\n", "invalid", -1},
	} {
		n, count := &fakeNode{limits: limits, decision: c.d}, counted{}
		got := say(t, New(n, count.options()), array(append([]string{"QUORATE.ALLOW"}, c.args...)...)+array("QUIT"))
		if got != c.want+"+OK\r\n" {
			t.Errorf("%s:\ngot  %q\nwant %q", c.what, got, c.want)
		}
		if count.codes[0] != c.code {
			t.Errorf("%s: counted as %v; want %s", c.what, count.codes, c.code)
		}
		want := quota.Request{Key: quota.Key{LimitName: quota.LimitName{Namespace: "web", Limit: c.args[1]}, Key: c.args[2]}, Cost: c.cost}
		switch {
		case c.cost < 0 && len(n.asked) > 0:
			t.Errorf("%s: asked %+v; want nothing charged", c.what, n.asked)
		case c.cost >= 0 && (len(n.asked) != 1 || n.asked[0] != want || len(count.seen) != 1):
			t.Errorf("%s: asked %+v, seen %+v; want %+v, once", c.what, n.asked, count.seen, want)
		}
	}
}

// noRoom is a node that follows as many buckets of callers as it may.
type noRoom struct{ fakeNode }

func (*noRoom) Decide(_ []quota.Request, out []quota.Decision) bool {
	out[0] = quota.Decision{Why: quota.WhyNoLimit}
	return false
}

// TestThrottleWithoutRoom checks that a bucket that the node cannot follow is an error, and not a refusal
// that says when to come back.
func TestThrottleWithoutRoom(t *testing.T) {
	full := &fakeNode{full: true, decision: quota.Decision{Allowed: true, Why: quota.WhyHeld}}
	for what, n := range map[string]Node{"when it decides": &noRoom{}, "for this caller": full} {
		var count counted
		o := count.options()
		o.Owner = func(c *auth.Caller, address string) string { return fmt.Sprint(c, " at ", address) }
		got := say(t, New(n, o), array("CL.THROTTLE", "k", "15", "30", "60")+array("QUIT"))
		if !strings.HasPrefix(got, "-TRYAGAIN ") || count.codes[0] != codeUnavailable || len(count.seen) != 1 || count.seen[0].Limit != nil {
			t.Errorf("no room %s: %q, counted as %v, %+v", what, got, count.codes, count.seen)
		}
	}
	if len(full.asked) != 0 || !slices.Equal(full.owners, []string{"<nil> at pipe"}) {
		t.Errorf("asked %v for %q; want nothing, once for the connection's owner", full.asked, full.owners)
	}
}

// TestThrottle checks that CL.THROTTLE answers the five numbers that redis-cell documents, for the
// bucket that it describes.
func TestThrottle(t *testing.T) {
	for _, c := range []struct {
		what string
		args []string
		d    quota.Decision
		want string
		cost int64
	}{
		{"passed", []string{"k", "15", "30", "60"}, quota.Decision{Allowed: true, Why: quota.WhyLeader, Remaining: 15, ResetAfter: 2 * time.Second}, "*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n", 1},
		{"limited", []string{"k", "15", "30", "60", "2"}, quota.Decision{Why: quota.WhyOverLimit, Remaining: 1, RetryAfter: 1100 * time.Millisecond, ResetAfter: 30*time.Second + 1}, "*5\r\n:1\r\n:16\r\n:1\r\n:2\r\n:31\r\n", 2},
		{"never", []string{"k", "15", "30", "60", "17"}, quota.Decision{Why: quota.WhyOverBurst, Remaining: 16, RetryAfter: 1<<63 - 1}, "*5\r\n:1\r\n:16\r\n:16\r\n:-1\r\n:0\r\n", 17},
		{"asked for nothing", []string{"k", "15", "30", "60", "0"}, quota.Decision{Why: quota.WhyOverLimit, RetryAfter: time.Second}, "*5\r\n:0\r\n:16\r\n:0\r\n:-1\r\n:0\r\n", 0},
	} {
		n, count := &fakeNode{decision: c.d}, counted{}
		got := say(t, New(n, count.options()), array(append([]string{"CL.THROTTLE"}, c.args...)...)+array("QUIT"))
		if got != c.want+"+OK\r\n" {
			t.Errorf("%s:\ngot  %q\nwant %q", c.what, got, c.want)
		}
		want := quota.Key{LimitName: quota.LimitName{Namespace: "redis", Limit: "@inline.bucket.soft.30.60000000000.16.leader"}, Key: "k"}
		if len(n.asked) != 1 || n.asked[0].Key != want || n.asked[0].Cost != c.cost || n.asked[0].MaxWait != 0 {
			t.Errorf("%s: asked %+v; want %v, cost %d, no wait", c.what, n.asked, want, c.cost)
		}
	}
	for _, c := range [][2]string{
		{"k -1 30 60", "max_burst: -1; must be 0 to 4398046511103"},
		{"k 15 0 60", "count_per_period: 0; must be 1 to 4398046511104"},
		{"k 15 30 0", "period in seconds: 0; must be 1 to 31622400"},
		{"k 15 30 99999999", "period in seconds: 99999999; must be 1 to 31622400"},
		{"k 15 30 60 -1", "quantity: -1; must be 0 to 4398046511104"},
		{"k 15 30 x", "period in seconds: x; must be 1 to 31622400"},
		{"k 15 30", "wrong number of arguments for 'cl.throttle' command; usage: CL.THROTTLE key max_burst count_per_period period [quantity]"},
		{"k 15 30 60 1 1", "wrong number of arguments for 'cl.throttle' command; usage: CL.THROTTLE key max_burst count_per_period period [quantity]"},
	} {
		n := &fakeNode{}
		if got := say(t, New(n, Options{}), "CL.THROTTLE "+c[0]+"\r\nQUIT\r\n"); got != "-ERR "+c[1]+"\r\n+OK\r\n" || len(n.asked) > 0 {
			t.Errorf("%s: %q, asked %v; want %s", c[0], got, n.asked, c[1])
		}
	}
}
