package rest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/auth"
	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/attach"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
)

// securedHost is a node with authentication that accepts attachments.
type securedHost struct {
	*secured
	host *fakeHost
}

func (h securedHost) Attach(hello *attach.Hello, out *attach.Outbox) (attach.Session, error) {
	return h.host.Attach(hello, out)
}

// TestAttachAuth checks that a caller attaches for the namespaces in which it may check, receives
// no limits of other namespaces, and learns which permission is missing.
func TestAttachAuth(t *testing.T) {
	web := rbac.Binding{Permissions: []string{rbac.Check.String()}, Scope: rbac.Namespace("web")}
	for _, c := range []struct {
		caller     string
		namespaces []string
		code       codes.Code
		want       string
	}{
		{"shop", []string{"web"}, codes.OK, ""},
		{"shop", nil, codes.OK, ""}, // every namespace in which it may check
		{"shop", []string{"web", "pay"}, codes.PermissionDenied, "no permission " + rbac.Check.String() + " in " + string(rbac.Namespace("pay"))},
		{"stranger", []string{"web"}, codes.PermissionDenied, rbac.Check.String()},
		{nobodyAtAll, []string{"web"}, codes.Unauthenticated, ""},
	} {
		t.Run(fmt.Sprint(c.caller, c.namespaces), func(t *testing.T) {
			h := securedHost{newSecured(t, map[string]rbac.Binding{"shop": web, "stranger": {}}), newFakeHost(t)}
			stream, err := quoratev1.NewMemberServiceClient(dialGRPC(t, h, h.opts)).Attach(h.as(t.Context(), c.caller))
			if err != nil {
				t.Fatal(err)
			}
			hello := clientHello()
			hello.Namespaces = c.namespaces
			_ = stream.Send(asks(hello)) // Recv returns the error
			m, err := stream.Recv()
			if status.Code(err) != c.code || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, %v; want %v, %q", m, err, c.code, c.want)
			}
			if err != nil {
				if h.host.hello != nil {
					t.Error("the node was told of it")
				}
				return
			}
			if may := h.host.hello.May; may == nil || !may("web") || may("pay") {
				t.Errorf("hello %+v: may be told of web alone", h.host.hello)
			}
			if report := h.host.hello.MayReport; report == nil || report("web") || report(quota.Global.Namespace) {
				t.Errorf("hello %+v: may report nowhere", h.host.hello)
			}
			if got := string(h.host.hello.Client); got != "token:shop/svc" {
				t.Errorf("client %q: others may have that name", got)
			}
		})
	}
}

// TestAttachGlobal checks the permissions for the global default limit: a process may use it with
// the permission check in any namespace, and may charge it or give tokens back with the permission
// report.
func TestAttachGlobal(t *testing.T) {
	role := func(p ...string) rbac.Binding { return rbac.Binding{Permissions: p, Scope: rbac.Namespace("web")} }
	bindings := map[string]rbac.Binding{"checks": role(rbac.Check.String()), "reports": role(rbac.Check.String(), rbac.Report.String())}
	for _, c := range []struct {
		caller string
		entry  *peerv1.ReportEntry
		code   codes.Code
	}{
		{"checks", &peerv1.ReportEntry{Overdrawn: 7}, codes.OK},
		{"checks", &peerv1.ReportEntry{Overdrawn: 7, Charged: 7}, codes.PermissionDenied},
		{"checks", &peerv1.ReportEntry{Refunded: 7}, codes.PermissionDenied},
		{"reports", &peerv1.ReportEntry{Overdrawn: 7, Charged: 7, Refunded: 7}, codes.OK},
	} {
		h := securedHost{newSecured(t, bindings), newFakeHost(t)}
		stream, err := quoratev1.NewMemberServiceClient(dialGRPC(t, h, h.opts)).Attach(h.as(t.Context(), c.caller))
		if err != nil {
			t.Fatal(err)
		}
		c.entry.Namespace, c.entry.Limit, c.entry.Key, c.entry.Epoch = quota.Global.Namespace, quota.Global.Limit, "k", 1
		report := clientReport()
		report.Entries = []*peerv1.ReportEntry{c.entry}
		_, _ = stream.Send(asks(clientHello())), stream.Send(asks(report)) // Recv returns the error
		for range 2 {
			if _, err = stream.Recv(); err != nil {
				break
			}
		}
		if status.Code(err) != c.code {
			t.Errorf("%s says %v: %v; want %v", c.caller, c.entry, err, c.code)
		}
	}
}

// TestAttachRevoked checks that a process that has lost its permission reports nothing more.
func TestAttachRevoked(t *testing.T) {
	h := securedHost{newSecured(t, map[string]rbac.Binding{"shop": {Permissions: []string{rbac.Check.String()}, Scope: rbac.Namespace("web")}}), newFakeHost(t)}
	var table atomic.Pointer[rbac.Table]
	table.Store(h.table)
	var err error
	if h.opts.Guard, err = auth.New(auth.Config{Table: table.Load}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	stream, err := quoratev1.NewMemberServiceClient(dialGRPC(t, h, h.opts)).Attach(h.as(ctx, "shop"))
	if err != nil {
		t.Fatal(err)
	}
	report := clientReport()
	_, _ = stream.Send(asks(clientHello())), stream.Send(asks(report)) // Recv returns the error
	for range 2 {
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	h.mu.Lock()
	h.bindings = nil
	h.mu.Unlock()
	table.Store(h.Security())
	_ = stream.Send(asks(report)) // as above
	for err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("after the permission was taken away: %v", err)
	}
}

// TestAttachSlow checks that a process that receives nothing neither blocks the node nor fills its
// memory: its attachment ends. The messages are large, so that the connection's buffers cannot hold
// them.
func TestAttachSlow(t *testing.T) {
	t.Parallel() // it takes attachStuck
	h := newFakeHost(t)
	stream, err := quoratev1.NewMemberServiceClient(dialGRPC(t, h, api.Options{})).Attach(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(asks(clientHello())); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	large := &quoratev1.ClientOverride{Key: &raftlogv1.OverrideKey{Key: bytes.Repeat([]byte("k"), 1<<20)}}
	put := make(chan struct{})
	go func() { // the node
		defer close(put)
		for range 4 * attach.MaxQueued {
			h.out.Put(&quoratev1.AttachResponse{Body: &quoratev1.AttachResponse_Overrides{Overrides: &quoratev1.ClientOverrides{Overrides: []*quoratev1.ClientOverride{large}}}})
		}
	}()
	for what, done := range map[string]chan struct{}{"the node is done": put, "the node is told that the stream is over": h.ended} {
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Fatalf("after a minute not yet: %s", what)
		}
	}
	for err == nil { // messages that were already sent
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the process is told %v; want %v", err, codes.ResourceExhausted)
	}
}
