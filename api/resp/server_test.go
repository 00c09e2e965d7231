package resp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/api/apitest"
	"github.com/quorate/quorate/internal/quota"
)

// TestGarbage checks that bytes that are not a command get an error and close the connection, after
// the answers to earlier commands.
func TestGarbage(t *testing.T) {
	for _, c := range [][2]string{
		{"*1\r\n#4\r\nPING\r\n", "expected '$', got '#'"},
		{"*x\r\n", "invalid number of arguments"},
		{"*-1\r\n", "invalid number of arguments"},
		{"*+1\r\n", "invalid number of arguments"},
		{"*01\r\n", "invalid number of arguments"},
		{"*\r\n", "invalid number of arguments"},
		{"*1\rX", "invalid number of arguments"},
		{"*65\r\n", "too many arguments; at most 64"},
		{"*99999999999999999999999\r\n", "too many arguments; at most 64"},
		{"*1\r\n$-1\r\n", "invalid number of bytes in an argument"},
		{"*1\r\n$16385\r\n", "too many bytes in an argument; at most 16384"},
		{"*1\r\n$536870912\r\n", "too many bytes in an argument; at most 16384"},
		{"*1\r\n$4\r\nPINGPONG\r\n", "an argument is longer than its length says"},
		{"*3\r\n" + strings.Repeat("$16384\r\n"+strings.Repeat("x", 16384)+"\r\n", 2), "a command of more than 32768 bytes"},
		{strings.Repeat("x", maxLine), "a line of more than 1024 bytes"},
		{"PING \"a b\"\r\n", "byte '\"' in a line; send arrays of strings"},
		{"PING \x00\r\n", "byte '\\x00' in a line; send arrays of strings"},
		{"\x16\x03\x01\x02\x00\x01\x00\n", "byte '\\x16' in a line; send arrays of strings"}, // TLS to a plain port
		{strings.Repeat("a ", 65) + "\n", "too many arguments; at most 64"},
	} {
		var n counted
		got := say(t, New(&fakeNode{}, n.options()), array("PING")+c[0]+array("PING"))
		if want := "+PONG\r\n-ERR Protocol error: " + c[1] + "\r\n"; got != want || n.codes[len(n.codes)-1] != codeProtocol {
			t.Errorf("%q:\ngot  %q, %v\nwant %q", c[0], got, n.codes, want)
		}
	}
	// An unknown command typed as a line ends the connection: a page in a browser cannot hide
	// commands in a form that it posts here.
	in := "POST / HTTP/1.1\r\nHost: 127.0.0.1:7415\r\n\r\nCL.THROTTLE k 1 1 1\r\n"
	n := &fakeNode{}
	if got := say(t, New(n, Options{}), in); !strings.HasPrefix(got, "-ERR unknown command 'POST'") || strings.Count(got, "\n") != 1 || len(n.asked) > 0 {
		t.Errorf("%q, asked %v", got, n.asked)
	}
}

// TestPipeline checks that a long pipeline is answered in order, in bounded pieces.
func TestPipeline(t *testing.T) {
	var in, want strings.Builder
	for i := range 3000 {
		text := fmt.Sprintf("%d%s", i, strings.Repeat("x", i%70))
		in.WriteString(array("ECHO", text))
		fmt.Fprintf(&want, "$%d\r\n%s\r\n", len(text), text)
		if i%500 == 0 {
			in.WriteString("ECHO typed\r\n" + array("GET", "x"))
			fmt.Fprintf(&want, "$5\r\ntyped\r\n-ERR unknown command 'GET' (nodes store no values: call QUORATE.ALLOW or CL.THROTTLE); known: %s\r\n", names())
		}
	}
	if got := say(t, New(&fakeNode{}, Options{}), in.String()+array("QUIT")); got != want.String()+"+OK\r\n" {
		t.Errorf("%d bytes; want %d, in order", len(got), want.Len()+5)
	}
}

// TestPipelinedChecks checks that checks that arrive together are decided together, at most maxChecks at a time, and that
// all commands are answered in order, also errors in between.
func TestPipelinedChecks(t *testing.T) {
	few := quota.Limit{LimitName: quota.LimitName{Namespace: "web", Limit: "few"}, Burst: 5, Rate: quota.Rate{Tokens: 1, Per: time.Second}}
	check := array("QUORATE.ALLOW", "web", "few", "k")
	yes := "*6\r\n:1\r\n:4\r\n:0\r\n:0\r\n$4\r\nheld\r\n$3\r\nfew\r\n"
	badCost := "-ERR cost: x; must be 0 to " + strconv.FormatInt(quota.MaxTokens, 10) + "\r\n"
	for _, c := range []struct {
		what, in, want string
		batches        []int
		codes          string
	}{
		{"one", check, yes, nil, "allowed ok"},
		{"two", check + check, yes + yes, []int{2}, "allowed allowed ok"},
		{"others between", check + check + array("PING") + check, yes + yes + "+PONG\r\n" + yes, []int{2}, "allowed allowed ok allowed ok"},
		{
			"an error between", check + check + array("QUORATE.ALLOW", "web", "few", "k", "x") + check + check, yes + yes + badCost + yes + yes,
			[]int{2, 2},
			"allowed allowed invalid allowed allowed ok",
		},
		{
			"an unknown limit between", check + array("QUORATE.ALLOW", "web", "fw", "k") + check,
			yes + "-NOLIMIT unknown limit web/fw; did you mean \"web/few\"? namespace \"web\" has: few\r\n" + yes,
			[]int{3},
			"allowed no_limit allowed ok",
		},
		{"a transaction", array("MULTI") + check + check + array("EXEC"), "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n" + yes + yes, []int{2}, "ok allowed allowed ok ok"},
		{
			"many", strings.Repeat(check, 2*maxChecks+1), strings.Repeat(yes, 2*maxChecks+1),
			[]int{maxChecks, 19, 46},
			strings.Repeat("allowed ", 2*maxChecks+1) + "ok",
		}, // the connection reads 4 KiB at a time
	} {
		n := &fakeNode{limits: set(t, few), decision: quota.Decision{Allowed: true, Why: quota.WhyHeld, Remaining: 4}}
		var seen counted
		got := say(t, New(n, seen.options()), c.in+array("QUIT"))
		if got != c.want+"+OK\r\n" {
			t.Errorf("%s: %q; want %q", c.what, got, c.want)
		}
		if codes := strings.Join(seen.codes, " "); !slices.Equal(n.batches, c.batches) || codes != c.codes {
			t.Errorf("%s: batches of %v, counted %s; want %v, %s", c.what, n.batches, codes, c.batches, c.codes)
		}
	}
}

// TestSlow checks that a connection that makes no progress ends: one that sends nothing, one that
// does not finish its command, and one that does not read.
func TestSlow(t *testing.T) {
	for _, c := range []struct {
		what string
		do   func(c net.Conn)
		want time.Duration
	}{
		{"says nothing", func(net.Conn) {}, idleTime},
		{"said something", func(c net.Conn) {
			_, _ = io.WriteString(c, "PING\r\n")
			_, _ = c.Read(make([]byte, 99))
		}, idleTime},
		{"a byte now and then", func(c net.Conn) {
			for _, b := range []byte("*2\r\n$4\r\nECHO\r\n$9\r\nabcdefghi\r\n") {
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(3 * time.Second) // in the synctest bubble
			}
		}, commandTime},
		{"does not read", func(c net.Conn) { _, _ = io.WriteString(c, strings.Repeat("PING\r\n", 9999)) }, writeTime},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := New(&fakeNode{}, Options{})
			conn := connect(t, s)
			begin := time.Now()
			done := make(chan struct{})
			go func() { defer close(done); c.do(conn) }()
			s.wait.Wait()
			if took := time.Since(begin); took != c.want {
				t.Errorf("%s: closed after %v; want %v", c.what, took, c.want)
			}
			if len(s.open) != 0 {
				t.Errorf("%s: %d connections are still known", c.what, len(s.open))
			}
			_ = conn.Close()
			<-done
		})
	}
}

// TestMemory checks that the buffers of a connection stay small, whatever it sends.
func TestMemory(t *testing.T) {
	r := &reader{src: strings.NewReader(strings.Repeat(array("ECHO", strings.Repeat("x", maxArg-4), strings.Repeat("y", maxArg-99)), 50) + array("PING"))}
	n, largest := 0, 0
	for {
		_, err := r.next()
		if errors.Is(err, errMore) {
			if err = r.fill(); err != nil {
				break
			}
			largest = max(largest, cap(r.buf))
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 51 || largest > 2*maxCommand {
		t.Errorf("%d commands in a buffer of %d bytes; want 51 in %d", n, largest, 2*maxCommand)
	}
	c := &conn{Server: New(&fakeNode{}, Options{}), raw: discard{}}
	for range 4000 {
		c.in.line = false
		c.answer([][]byte{[]byte("ECHO"), make([]byte, maxArg)})
		if len(c.out) >= flushAt {
			c.flush()
		}
		if cap(c.out) > 2*flushAt+2*maxArg {
			t.Fatalf("%d bytes of answers are kept", cap(c.out))
		}
	}
}

// discard is a connection that accepts everything.
type discard struct{ net.Conn }

func (discard) Write(b []byte) (int, error)      { return len(b), nil }
func (discard) SetWriteDeadline(time.Time) error { return nil }

// listening returns a server on a port of this machine.
func listening(t *testing.T, s *Server) (addr string, ended chan error) {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended = make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	return l.Addr().String(), ended
}

// TestShutdown checks that commands that have arrived are answered and that connections then end,
// busy or not.
func TestShutdown(t *testing.T) {
	hold := make(chan struct{})
	s := New(holding{hold}, Options{})
	addr, ended := listening(t, s)
	var d net.Dialer
	idle, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	busy, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(busy, array("PING")+array("CL.THROTTLE", "k", "1", "1", "1")+array("PING"))
	hold <- struct{}{} // it is being decided
	down := make(chan error, 1)
	go func() { down <- s.Shutdown(t.Context()) }()
	if _, err := idle.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("who is idle reads %v; want the end", err)
	}
	if err := <-ended; !errors.Is(err, ErrStopped) {
		t.Errorf("Serve: %v", err)
	}
	hold <- struct{}{}
	got, err := io.ReadAll(busy)
	if want := "+PONG\r\n*5\r\n:0\r\n:2\r\n:0\r\n:-1\r\n:0\r\n+PONG\r\n"; err != nil || string(got) != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	if err := <-down; err != nil {
		t.Error(err)
	}
	if err := s.Serve(listener(t)); !errors.Is(err, ErrStopped) {
		t.Errorf("Serve after Shutdown: %v", err)
	}
}

func listener(t *testing.T) net.Listener {
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// holding is a node that signals when a decision begins, and then waits to continue.
type holding struct{ hold chan struct{} }

func (n holding) Limits() *quota.Limits { return nil }

func (holding) AdmitInline(quota.LimitName, string) bool { return true }

func (n holding) Decide(_ []quota.Request, out []quota.Decision) bool {
	<-n.hold
	<-n.hold
	out[0] = quota.Decision{Allowed: true, Why: quota.WhyHeld, Limit: &quota.Limit{Burst: 2}}
	return true
}

func (n holding) Batch() func([]quota.Call) { return apitest.Batch(n.Decide, nil) }

// TestShutdownInTime checks that a caller that blocks its connection does not delay the shutdown
// beyond its context.
func TestShutdownInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(&fakeNode{}, Options{})
		c := connect(t, s)
		go io.WriteString(c, strings.Repeat("PING\r\n", 9999))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		_ = c.Close()
	})
}

// FuzzConn checks that any bytes get well-formed answers, one for each command.
func FuzzConn(f *testing.F) {
	for _, s := range []string{
		"PING\r\n", array("HELLO", "3") + array("COMMAND") + array("COMMAND", "DOCS"), array("CL.THROTTLE", "k", "1", "1", "1", "0"),
		array("QUORATE.ALLOW", "web", "api", "k", "1"), array("CLIENT", "INFO"), "*2\r\n$4\r\nECHO\r\n$3\r\na\r\n\r\n", "*1\r\n$1\r\n",
		array("HELLO", "3", "AUTH", "a", "b", "SETNAME", "c"), array("MULTI") + array("COMMAND") + array("GET") + array("EXEC"),
		array("MULTI") + array("CL.THROTTLE", "k", "1", "1", "1") + array("HELLO", "3") + array("EXEC") + array("DISCARD"), "GET / HTTP/1.1\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var out sent
		c := &conn{Server: New(&fakeNode{decision: quota.Decision{Allowed: true, Why: quota.WhyHeld}}, Options{}), raw: &out}
		c.in.src = strings.NewReader(string(in))
		commands := 0
		for ; !c.done; commands++ {
			args, err := c.in.next()
			if errors.Is(err, errMore) {
				if c.in.fill() != nil {
					break
				}
				commands--
				continue
			}
			if err != nil {
				break
			}
			c.answer(args)
			c.flush()
		}
		c.decideChecks()
		c.flush()
		if c.forget(); c.queued.Held() != 0 {
			t.Fatalf("%q: %d bytes are still counted as queued", in, c.queued.Held())
		}
		answers := 0
		for r := bufio.NewReader(strings.NewReader(string(out.b))); ; answers++ {
			if _, err := r.Peek(1); err != nil {
				break
			}
			if err := readReply(r, 0); err != nil {
				t.Fatalf("%q is answered with %q: %v", in, out.b, err)
			}
		}
		if answers != commands {
			t.Fatalf("%q: %d commands, %d answers: %q", in, commands, answers, out.b)
		}
	})
}

// sent is a connection that records the bytes written.
type sent struct {
	net.Conn
	b []byte
}

func (s *sent) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9} }
func (s *sent) SetWriteDeadline(time.Time) error { return nil }
func (s *sent) Write(b []byte) (int, error) {
	s.b = append(s.b, b...)
	return len(b), nil
}

// readReply reads one answer in either version, strictly.
func readReply(r *bufio.Reader, depth int) error {
	line, err := r.ReadString('\n')
	if err != nil || len(line) < 3 || !strings.HasSuffix(line, "\r\n") || depth > 5 {
		return fmt.Errorf("line %q at depth %d: %w", line, depth, err)
	}
	kind, text := line[0], line[1:len(line)-2]
	if strings.ContainsAny(text, "\r\n") {
		return fmt.Errorf("line %q", line)
	}
	n := 0
	if strings.ContainsRune(":$*%", rune(kind)) {
		if _, err := fmt.Sscanf(text, "%d", &n); err != nil {
			return fmt.Errorf("number %q", line)
		}
	}
	switch kind {
	case '+', '-', ':':
		return nil
	case '$':
		if n < 0 {
			return nil
		}
		if _, err := r.Discard(n); err != nil {
			return err
		}
		end, err := r.ReadString('\n')
		if end != "\r\n" {
			return fmt.Errorf("end of a string %q: %w", end, err)
		}
		return nil
	case '%':
		n *= 2
	case '*':
	default:
		return fmt.Errorf("kind %q", line)
	}
	for range n {
		if err := readReply(r, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// FuzzParse checks that a command is the same however its bytes arrive, is within its bounds, and
// parses to the same when written again.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"PING\r\n", array("ECHO", "a\r\nb"), "*1\r\n$0\r\n\r\n", "*0\r\n", "\n", "*2\r\n$1\r\na\r\n$1", "$1\r\na\r\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		args, n, line, err := parse(in, nil)
		for cut := range in {
			if cut > 4096 {
				break
			}
			_, short, _, shortErr := parse(in[:cut], nil)
			switch {
			case cut >= n && err == nil && short != n:
				t.Fatalf("%q is %d bytes, with more behind %d", in, short, n)
			case (err != nil || cut < n) && shortErr == nil:
				t.Fatalf("%q: whole after %d bytes, then %v, %d", in, cut, err, n)
			}
		}
		if err != nil {
			if len(in) > 2*maxCommand && errors.Is(err, errMore) {
				t.Fatalf("waits for more after %d bytes", len(in))
			}
			return
		}
		if n > maxCommand || len(args) > maxArgs {
			t.Fatalf("%d bytes, %d arguments", n, len(args))
		}
		if line || len(args) == 0 {
			return
		}
		words := make([]string, len(args))
		for i, a := range args {
			words[i] = string(a)
		}
		if array(words...) != string(in[:n]) {
			t.Fatalf("%q is written again as %q", in[:n], array(words...))
		}
	})
}

// TestBusy checks that a connection whose commands arrive without a pause stays open, although some command is
// always incomplete when the server reads.
func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(&fakeNode{}, Options{})
		c := connect(t, s)
		defer func() { _ = c.Close() }()
		ping := array("PING")
		rest := ping
		for range 30 {
			time.Sleep(time.Second)
			half := len(ping) / 2
			if _, err := io.WriteString(c, rest+ping[:half]); err != nil {
				t.Fatalf("the server does not read: %v", err)
			}
			rest = ping[half:]
			if _, err := io.ReadFull(c, make([]byte, len("+PONG\r\n"))); err != nil {
				t.Fatalf("no answer: %v", err)
			}
		}
	})
}
