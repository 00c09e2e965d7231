package client

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/buftest"
	"github.com/quorate/quorate/internal/quota"
)

// heard holds the output of a logger, without times.
type heard struct{ buftest.Buffer }

func (h *heard) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(h, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// TestAddresses checks that New refuses an invalid address with a clear error.
func TestAddresses(t *testing.T) {
	for addr, ok := range map[string]bool{
		"localhost": false, "127.0.0.1": false, "::1": false, "": false, "localhost:": false,
		"http://localhost:7412": false, "https://localhost:7412": false,
		"localhost:7412": true, ":7412": true, "[::1]:7412": true, "dns:///quorate:7412": true, "unix:/run/quorate.sock": true,
	} {
		c, err := New(t.Context(), []string{addr}, WithMode(Remote))
		if err == nil {
			c.Close()
		}
		var e *Error
		if (err == nil) != ok || !ok && (!errors.As(err, &e) || e.Field != "addrs" || !strings.Contains(err.Error(), "must be host:port") || !strings.Contains(err.Error(), "7412")) {
			t.Errorf("%q: %v", addr, err)
		}
	}
}

// TestNobodyThere checks that the client logs after two seconds that no node answers, then once a
// minute, and logs once that a node answers again.
func TestNobodyThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, []string{"a"}, bucketLimit("l", "10/s", 10, quota.Soft))
		cl.node("a").set(false)
		var h heard
		c := attachTo(t, cl, WithLogger(h.logger()))
		defer c.Close()
		time.Sleep(1900 * time.Millisecond)
		if got := h.Take(); got != "" {
			t.Errorf("before two seconds: %s", got)
		}
		time.Sleep(2 * time.Second)
		if got := h.Take(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=WARN") || !strings.Contains(got, `no node answers: requests are not limited" for=`) || !strings.Contains(got, `err="a: a is down"`) {
			t.Errorf("after four seconds: %s", got)
		}
		time.Sleep(200 * time.Second)
		if got := h.Take(); strings.Count(got, "\n") != 3 {
			t.Errorf("in 200 s: %s", got)
		}
		cl.node("a").set(true)
		ready(t, c)
		if got := h.Take(); got != "level=INFO msg=\"quorate: attached to a node\" node=a\n" {
			t.Errorf("again: %s", got)
		}
		time.Sleep(2 * stableAfter)
		cl.node("a").set(false)
		time.Sleep(300 * time.Millisecond)
		cl.node("a").set(true)
		time.Sleep(10 * time.Second)
		if got := h.Take(); got != "" {
			t.Errorf("a stream that broke and was made anew: %s", got)
		}
		cl.node("a").set(false)
		time.Sleep(4 * time.Second)
		if got := h.Take(); !strings.Contains(got, "no node answers: this process enforces its limits alone") {
			t.Errorf("with known limits: %s", got)
		}
	})
}

// TestEffect checks how the client describes what becomes of checks before it knows the limits.
func TestEffect(t *testing.T) {
	everything, one := Default{Hard: true}, Default{Namespace: "web", Rate: "10/s"}
	for _, c := range []struct {
		mode     Mode
		closed   bool
		defaults []Default
		want     string
	}{
		{InProcess, false, nil, "requests are not limited"},
		{Remote, false, nil, "checks return an error"},
		{InProcess, true, nil, "requests are refused"},
		{Remote, false, []Default{everything}, "requests are refused"},
		{Remote, false, []Default{one}, "WithDefaults decides"},
		{InProcess, true, []Default{one}, "WithDefaults decides"},
	} {
		f, err := newFallback(c.defaults, c.closed, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.effect(c.mode); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestWrongName checks that the client logs an unknown limit once a minute, with the probable
// correction as in the error of each check, whichever call names it.
func TestWrongName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, []string{"a"}, bucketLimit("per_client", "10/s", 10, quota.Soft))
		var h heard
		c := attachTo(t, cl, WithLogger(h.logger()))
		defer c.Close()
		ready(t, c)
		b := c.Bucket("web", "per_clint", "k")
		for range 1000 {
			if !b.Allow() {
				t.Fatal("refused")
			}
			time.Sleep(100 * time.Millisecond)
		}
		_, err := b.Check(t.Context(), 1)
		if want := `unknown limit: web/per_clint; did you mean "web/per_client"?`; !errors.Is(err, ErrNoLimit) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v", err)
		}
		got := h.Take()
		if strings.Count(got, "\n") != 2 || !strings.Contains(got, `did you mean \"web/per_client\"?`) || !strings.Contains(got, "limit=web/per_clint") {
			t.Errorf("in 100 s: %s", got)
		}
		for range 5 {
			if res, err := c.AllowHTTP(t.Context(), HTTPCheck{Namespace: "web", Method: "GET", Path: "/"}); err != nil || !res.Allowed || res.Why != WhyNoLimit {
				t.Errorf("%+v %v", res, err)
			}
		}
		if got := h.Take(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "has a match") {
			t.Errorf("rules: %s", got)
		}
		for i := range 2 * maxNames { // more names than the client remembers
			if _, err := c.Allow(t.Context(), "web", strings.Repeat("x", i+1)[:min(i+1, 128)], "k", 1); !errors.Is(err, ErrNoLimit) {
				t.Fatal(err)
			}
		}
		if n := len(c.notices.names); n > maxNames {
			t.Errorf("%d names", n)
		}
	})
}

// TestOtherNamespace checks that the client does not report a limit as missing from the cluster if
// it belongs to a namespace that the client has not named.
func TestOtherNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := attachTo(t, newCluster(t, []string{"a"}, bucketLimit("l", "10/s", 10, quota.Soft)), WithNamespaces("web", "mail"), WithLogger(nil))
		defer c.Close()
		ready(t, c)
		if _, err := c.Allow(t.Context(), "api", "l", "k", 1); err == nil || !strings.Contains(err.Error(), "api/l is in none of the namespaces of WithNamespaces: web, mail") {
			t.Errorf("%v", err)
		}
	})
}

// TestNodeIsToldNames checks that the client asks a node for an unknown name without charging
// anything, so that the node counts the name: every few seconds, not at every check.
func TestNodeIsToldNames(t *testing.T) {
	var costs []int64
	n := answering(func(_ context.Context, req *quoratev1.AllowRequest) (*quoratev1.AllowResponse, error) {
		costs = append(costs, req.GetCost())
		return nil, status.Error(codes.NotFound, "web/per_clint does not exist")
	})
	addr, _ := serve(t, n)
	c := newClient(t, []string{addr}, WithLogger(nil))
	r := newRules(&quota.Limits{}, nil)
	name := quota.LimitName{Namespace: "web", Limit: "per_clint"}
	for range 100 {
		if err := c.noLimit(r, name); !errors.Is(err, ErrNoLimit) {
			t.Fatal(err)
		}
	}
	c.notices.close()
	if len(costs) != 1 || costs[0] != 0 {
		t.Errorf("asked with costs %v; want once, with 0", costs)
	}
	if err := c.noLimit(r, name); !errors.Is(err, ErrNoLimit) || len(costs) != 1 {
		t.Errorf("after close: %v, %v", err, costs)
	}
}

// TestCircuitIsSaid checks that the client logs unanswered calls when the circuit opens.
func TestCircuitIsSaid(t *testing.T) {
	addr, stop := serve(t, answering(admit))
	stop()
	var h heard
	c := newClient(t, []string{addr}, WithLogger(h.logger()), WithBreaker(2))
	for range 3 {
		c.Allow(t.Context(), "web", "per_client", "k", 1)
	}
	if got := h.Take(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "no node answers") || !strings.Contains(got, addr) {
		t.Errorf("%s", got)
	}
}

// TestExplain checks that the client explains errors that a wrong port or certificate causes, and
// leaves others as they are.
func TestExplain(t *testing.T) {
	refused := stats{whyRefused: func(text string) string {
		if strings.Contains(text, "bad certificate") {
			return "get a new one"
		}
		return ""
	}}
	refused.recordAttachError("n1:1", errors.New("remote error: tls: bad certificate"))
	if got := refused.lastError(); got != "n1:1: get a new one" {
		t.Errorf("of a refused certificate: %s", got)
	}
	refused.recordAttachError("n1:1", errors.New("too many clients"))
	if got := refused.lastError(); got != "n1:1: too many clients" {
		t.Errorf("of anything else: %s", got)
	}
	refused.recordAttachError("n1:1", status.Error(codes.PermissionDenied, `"client:shop" needs check in namespace "web"`))
	if got := refused.lastError(); !strings.HasSuffix(got, `: quorate roles bind "client:shop" checker --namespace NAMESPACE`) {
		t.Errorf("without a role: %s", got)
	}
	refused.recordAttachError("n1:1", status.Error(codes.Unauthenticated, "the call carries no credential; its caller needs check"))
	if got := refused.lastError(); !strings.Contains(got, "WithTokenFile") {
		t.Errorf("without a credential: %s", got)
	}
	for text, want := range map[string]string{
		"unexpected HTTP status code received from server: 404 (Not Found); transport: received unexpected content-type \"text/plain\"":                "is HTTP, not gRPC: use the gRPC port, 7412 by default",
		"connection error: desc = \"error reading server preface: EOF\"":                                                                               "error reading server preface: EOF; use the gRPC port, 7412 by default, and WithTLSDir if the nodes use TLS",
		"connection error: desc = \"error reading server preface: http2: frame too large\"":                                                            "does not speak gRPC, such as the port of the Redis protocol: use the gRPC port, 7412 by default",
		"connection error: desc = \"transport: authentication handshake failed: credentials: cannot check peer: missing selected ALPN property\"":      "is a port with TLS and without gRPC, such as that for peers: use the gRPC port, 7412 by default",
		"connection error: desc = \"transport: authentication handshake failed: tls: first record does not look like a TLS handshake\"":                "is a port without TLS: use the gRPC port, 7412 by default, or leave out WithTLSDir if the nodes use no TLS",
		"connection error: desc = \"error reading server preface: http2: frame too large, note that the frame header looked like an HTTP/1.1 header\"": "is HTTP, not gRPC: use the gRPC port, 7412 by default",
		"too many clients": "too many clients",
	} {
		if got := explainTransport(text); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
}
