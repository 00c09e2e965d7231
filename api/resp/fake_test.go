package resp

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/quorate/quorate/internal/quota"
)

// fakeNode decides as it is told, and remembers what it was asked.
type fakeNode struct {
	limits   *quota.Limits
	decision quota.Decision

	mu    sync.Mutex
	asked []quota.Request
}

func (n *fakeNode) Decide(reqs []quota.Request, out []quota.Decision) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = append(n.asked, reqs...)
	out[0] = n.decision
	if l, _ := n.limits.Resolve(reqs[0].Key.LimitName, reqs[0].Key.Key); l != nil {
		out[0].Limit = l
	} else {
		out[0] = quota.Decision{Why: quota.WhyNoLimit}
	}
	return out[0].Allowed
}

func set(t testing.TB, limits ...quota.Limit) *quota.Limits {
	t.Helper()
	s, err := quota.NewLimits(1, limits)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// counted counts what the server was told to count.
type counted struct {
	mu    sync.Mutex
	codes []string
	seen  []quota.Decision
}

func (c *counted) options() Options {
	return Options{
		Count: func(code string) { c.mu.Lock(); defer c.mu.Unlock(); c.codes = append(c.codes, code) },
		Seen:  func(d *quota.Decision) { c.mu.Lock(); defer c.mu.Unlock(); c.seen = append(c.seen, *d) },
	}
}

// connect returns the caller's end of a connection to the server.
func connect(t testing.TB, s *Server) net.Conn {
	t.Helper()
	ours, theirs := net.Pipe()
	s.accepted(theirs)
	t.Cleanup(func() { _ = ours.Close() })
	return ours
}

// say sends bytes and returns all that comes until the server closes: what is
// sent has to end with QUIT, or with what closes.
func say(t testing.TB, s *Server, in string) string {
	t.Helper()
	c := connect(t, s)
	go func() { _, _ = io.WriteString(c, in) }() // what is behind QUIT is not read
	out, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// array writes a command as clients do.
func array(words ...string) string {
	var b strings.Builder
	r := reply{}
	r.array(len(words))
	for _, w := range words {
		r.text(w)
	}
	b.Write(r.out)
	return b.String()
}
