package rest

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apitest"
	"github.com/quorate/quorate/api/auth"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/api/grpcapi"
	"github.com/quorate/quorate/internal/audit"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
)

// TestLocal checks that a call within the process follows the rules of calls from outside:
// permissions, validation, and the audit log.
func TestLocal(t *testing.T) {
	s := newSecured(t, map[string]rbac.Binding{"reader": {Role: "limit-reader", Scope: rbac.Everywhere}, "boss": {Role: "admin", Scope: rbac.Everywhere}})
	path := t.TempDir() + "/audit.log"
	log, err := audit.Open(audit.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	o := s.opts
	o.Audit = log
	security := quoratev1.NewSecurityServiceClient(grpcapi.NewLocal(api.New(s, o)))
	as := func(name string) context.Context {
		c, err := s.opts.Guard.Identify(t.Context(), nil, []string{"Bearer " + s.tokens[name]})
		if err != nil {
			t.Fatal(err)
		}
		return auth.With(t.Context(), c)
	}
	if me, err := security.WhoAmI(as("reader"), &quoratev1.WhoAmIRequest{}); err != nil || me.Identity != "token:reader" {
		t.Errorf("%v %v", me, err)
	}
	if _, err := security.ListTokens(as("reader"), &quoratev1.ListTokensRequest{}); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "access.read") {
		t.Error(err)
	}
	if _, err := security.ListTokens(t.Context(), &quoratev1.ListTokensRequest{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("nobody: %v", err)
	}
	if _, err := security.CreateToken(as("boss"), &quoratev1.CreateTokenRequest{Name: "a b"}); status.Code(err) != codes.InvalidArgument {
		t.Error(err)
	}
	made, err := security.CreateToken(as("boss"), &quoratev1.CreateTokenRequest{Name: "new"})
	if err != nil {
		t.Fatal(err)
	}
	entries, _, err := audit.Find(path, audit.Query{From: audit.Start(), Most: 10})
	if err != nil || len(entries) != 4 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	for i, want := range []audit.Result{audit.OK, audit.Failed, audit.Denied, audit.Denied} {
		if e := entries[i]; e.Result != want || strings.Contains(e.Answer, made.Token) {
			t.Errorf("entry %d: %+v; want %s", i, e, want)
		}
	}
	if entries[0].Identity != "token:boss" || entries[0].Method != "/quorate.v1.SecurityService/CreateToken" {
		t.Errorf("%+v", entries[0])
	}
	if _, err := quoratev1.NewQuotaServiceClient(grpcapi.NewLocal(api.New(s, o))).Allow(as("boss"), &quoratev1.AllowRequest{}); status.Code(err) != codes.Unimplemented {
		t.Error(err)
	}
}

// TestLocalStream checks that a stream of answers ends with its context, and with an error for a
// caller without the permission.
func TestLocalStream(t *testing.T) {
	n := apitest.New(t)
	conn := grpcapi.NewLocal(api.New(n, api.Options{}))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	watch, err := quoratev1.NewEventServiceClient(conn).Watch(ctx, &quoratev1.WatchRequest{Buffer: -1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a wrong request: %v", err)
	}
	if watch, err = quoratev1.NewEventServiceClient(conn).Watch(ctx, &quoratev1.WatchRequest{}); err != nil {
		t.Fatal(err)
	}
	n.Events <- quota.Event{Kind: quota.EventRefused, Cost: 7}
	if m, err := watch.Recv(); err != nil || m.Event.GetCost() != 7 {
		t.Errorf("%v %v", m, err)
	}
	cancel()
	for {
		_, err := watch.Recv()
		if err == nil {
			continue
		}
		if !errors.Is(err, io.EOF) && status.Code(err) != codes.Canceled {
			t.Error(err)
		}
		return
	}
}
