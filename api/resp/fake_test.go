package resp

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/quorate/quorate/api/apitest"
	"github.com/quorate/quorate/internal/quota"
)

// fakeNode returns the decisions that a test sets, and records the requests.
type fakeNode struct {
	limits   *quota.Limits
	decision quota.Decision

	mu      sync.Mutex
	asked   []quota.Request
	batches []int    // calls in each batch
	owners  []string // of limits that requests carry
	full    bool     // there is no room for another such limit
}

func (n *fakeNode) AdmitInline(_ quota.LimitName, owner string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.owners = append(n.owners, owner)
	return !n.full
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

func (n *fakeNode) Batch() func([]quota.Call) {
	return func(calls []quota.Call) {
		n.mu.Lock()
		n.batches = append(n.batches, len(calls))
		n.mu.Unlock()
		apitest.Batch(n.Decide, nil)(calls)
	}
}

func (n *fakeNode) Limits() *quota.Limits { return n.limits }

func set(t testing.TB, limits ...quota.Limit) *quota.Limits {
	t.Helper()
	s, err := quota.NewLimits(1, limits)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// counted records what the server counts.
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

// say sends bytes and returns all answers until the server closes the connection: the bytes must
// end with QUIT, or with something else that closes.
func say(t testing.TB, s *Server, in string) string {
	t.Helper()
	c := connect(t, s)
	go func() { _, _ = io.WriteString(c, in) }() // the server does not read what follows QUIT
	out, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// array encodes a command as clients do.
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
