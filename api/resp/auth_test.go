package resp

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/api/auth"
	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/pki"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
)

// guarded is a server with authentication.
type guarded struct {
	*Server
	node   *fakeNode
	count  counted
	table  *rbac.Table
	now    time.Time
	denied []string
}

func newGuarded(t testing.TB) *guarded {
	t.Helper()
	g := &guarded{table: &rbac.Table{}, now: time.Unix(1_800_000_000, 0)}
	g.node = &fakeNode{decision: quota.Decision{Allowed: true, Why: quota.WhyHeld}, limits: set(t, quota.Limit{LimitName: quota.LimitName{Namespace: "web", Limit: "api"}, Burst: 5, Rate: quota.Rate{Tokens: 1, Per: time.Second}})}
	guard, err := auth.New(auth.Config{Table: func() *rbac.Table { return g.table }, Now: func() time.Time { return g.now }, Certificate: func(tls.ConnectionState) (pki.Identity, bool, error) {
		return pki.Identity{Cluster: "c", Kind: pki.Client, Name: "ci"}, true, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	o := g.count.options()
	o.Guard, o.Now = guard, func() time.Time { return g.now }
	o.Denied = func(command string, c *auth.Caller, address string, err error) {
		who := "nobody"
		if c != nil {
			who = c.Identity
		}
		g.denied = append(g.denied, command+" "+who+" "+address)
		if err == nil {
			t.Error("denied without an error")
		}
	}
	g.Server = New(g.node, o)
	return g
}

func (g *guarded) apply(t testing.TB, c *raftlogv1.ChangeSecurity) {
	t.Helper()
	table, res := g.table.Apply(c)
	if res.Err != nil {
		t.Fatal(res.Err)
	}
	g.table = table
}

func (g *guarded) bind(t testing.TB, identity, role string, scope rbac.Scope) {
	t.Helper()
	g.apply(t, &raftlogv1.ChangeSecurity{Change: &raftlogv1.ChangeSecurity_SetBinding{SetBinding: rbac.EncodeBinding(&rbac.Binding{Identity: identity, Role: role, Scope: scope})}})
}

// token creates a token that is valid for a duration.
func (g *guarded) token(t testing.TB, name string, ttl time.Duration) string {
	t.Helper()
	text, id, hash := pki.NewBearer()
	g.apply(t, &raftlogv1.ChangeSecurity{Change: &raftlogv1.ChangeSecurity_AddToken{AddToken: rbac.EncodeToken(&rbac.Token{ID: id, Name: name, Hash: hash, Expires: quota.Time(g.now.Add(ttl).UnixNano())})}})
	return text
}

// talk is a conversation on one connection.
type talk struct {
	t testing.TB
	net.Conn
	r *bufio.Reader
}

func newTalk(t testing.TB, s *Server) *talk {
	c := connect(t, s)
	return &talk{t, c, bufio.NewReader(c)}
}

// ask sends a command and returns the first line of its answer.
func (k *talk) ask(words ...string) string {
	k.t.Helper()
	if _, err := io.WriteString(k, array(words...)); err != nil {
		k.t.Fatal(err)
	}
	line, err := k.r.ReadString('\n')
	if err != nil {
		k.t.Fatal(err)
	}
	var rest strings.Builder
	for k.r.Buffered() > 0 {
		b, _ := k.r.ReadByte()
		rest.WriteByte(b)
	}
	return strings.TrimSuffix(line, "\r\n")
}

// TestAuth checks the permissions of the token that a connection gave.
func TestAuth(t *testing.T) {
	g := newGuarded(t)
	web, redis := g.token(t, "web", time.Hour), g.token(t, "redis", time.Minute)
	g.bind(t, "token:web", "checker", rbac.Namespace("web"))
	g.bind(t, "token:redis", "checker", rbac.Namespace(Namespace))
	k := newTalk(t, g.Server)
	allow := []string{"QUORATE.ALLOW", "web", "api", "k"}
	throttle := []string{"CL.THROTTLE", "k", "1", "1", "1"}
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"PING"}, "+PONG"},
		{allow, "-NOAUTH the call carries no credential; its caller needs check in namespace \"web\"; send AUTH with a bearer token (quorate tokens create)"},
		{[]string{"AUTH", web + "x"}, "-WRONGPASS authorization: "},
		{allow, "-NOAUTH the call carries no credential"},
		{[]string{"AUTH", web}, "+OK"},
		{allow, "*6"},
		{throttle, `-NOPERM "token:web" needs check in namespace "redis"; an administrator can grant it: quorate roles bind "token:web" checker --namespace redis`},
		{[]string{"AUTH", "whoever", redis}, "+OK"},
		{throttle, "*5"},
		{allow, `-NOPERM "token:redis" needs check in namespace "web"`},
		{[]string{"AUTH", "quorate1t.0123456789ab.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB"}, "-WRONGPASS authorization: "},
		{throttle, "*5"}, // the previous credential stays
		{[]string{"HELLO", "3", "AUTH", "x", "y"}, "-WRONGPASS authorization: "},
	} {
		if got := k.ask(c.words...); !strings.HasPrefix(got, c.want) {
			t.Errorf("%.20v: %s; want %s", c.words, got, c.want)
		}
	}
	if _, err := k.r.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("after three wrong tokens: %v; want the end", err)
	}
	if want := "QUORATE.ALLOW anonymous:anonymous pipe, AUTH nobody pipe, QUORATE.ALLOW anonymous:anonymous pipe, CL.THROTTLE token:web pipe, QUORATE.ALLOW token:redis pipe, AUTH nobody pipe, AUTH nobody pipe"; strings.Join(g.denied, ", ") != want {
		t.Errorf("denied: %v\nwant    %s", g.denied, want)
	}
	if len(g.node.asked) != 3 {
		t.Errorf("asked the node %d times; want 3, of what was permitted", len(g.node.asked))
	}
}

// TestAuthEnds checks that a connection outlives neither its token nor a binding.
func TestAuthEnds(t *testing.T) {
	g := newGuarded(t)
	token := g.token(t, "web", 30*time.Second)
	g.bind(t, "token:web", "checker", rbac.Namespace("web"))
	k := newTalk(t, g.Server)
	if got := k.ask("HELLO", "3", "AUTH", "x", token); got != "%7" {
		t.Fatal(got)
	}
	for _, c := range []struct {
		after time.Duration
		want  string
	}{{0, "*6"}, {29 * time.Second, "*6"}, {9 * time.Second, "*6"}, {time.Second, "-NOAUTH authorization: the bearer token of token:web expired"}} {
		g.now = g.now.Add(c.after)
		if got := k.ask("QUORATE.ALLOW", "web", "api", "k"); !strings.HasPrefix(got, c.want) {
			t.Errorf("after %v: %s; want %s", c.after, got, c.want)
		}
	}
	token = g.token(t, "web", time.Hour)
	if got := k.ask("AUTH", token); got != "+OK" {
		t.Error(got)
	}
	g.table = &rbac.Table{} // the token and the binding are gone: the binding counts at once
	if got := k.ask("QUORATE.ALLOW", "web", "api", "k"); !strings.HasPrefix(got, "-NOPERM") {
		t.Error(got)
	}
	g.now = g.now.Add(again)
	if got := k.ask("QUORATE.ALLOW", "web", "api", "k"); !strings.HasPrefix(got, "-NOAUTH authorization: the bearer token is not known") {
		t.Error(got)
	}
}

// TestAnybody checks that no token is needed if everybody has the permission check, and that a bad
// token is still an error.
func TestAnybody(t *testing.T) {
	g := newGuarded(t)
	g.bind(t, rbac.Anybody, "checker", rbac.Namespace("web"))
	k := newTalk(t, g.Server)
	if got := k.ask("QUORATE.ALLOW", "web", "api", "k"); got != "*6" {
		t.Error(got)
	}
	if got := k.ask("AUTH", "quorate1t.x"); !strings.HasPrefix(got, "-WRONGPASS") {
		t.Error(got)
	}
}

// TestUnknownLimitNamesNoOtherNamespace checks that a caller with a permission in one namespace
// learns of no other.
func TestUnknownLimitNamesNoOtherNamespace(t *testing.T) {
	g := newGuarded(t)
	g.bind(t, rbac.Anybody, "checker", rbac.Namespace("wep"))
	k := newTalk(t, g.Server)
	if got := k.ask("QUORATE.ALLOW", "wep", "api", "k"); !strings.HasPrefix(got, `-NOLIMIT unknown limit wep/api: namespace "wep" has no limits`) || strings.Contains(got, "web") {
		t.Error(got)
	}
}

// TestAuthInTransaction checks that a transaction tries no more tokens than a connection may.
func TestAuthInTransaction(t *testing.T) {
	g := newGuarded(t)
	g.bind(t, rbac.Anybody, "checker", rbac.Everywhere)
	got := say(t, g.Server, array("MULTI")+strings.Repeat(array("AUTH", "x"), 100)+array("EXEC"))
	if n := strings.Count(got, "-WRONGPASS"); n != maxFailures || len(g.denied) != maxFailures {
		t.Errorf("%d answers, %d denied; want %d", n, len(g.denied), maxFailures)
	}
}
