package rest

import (
	"errors"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apitest"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/rbac"
)

// TestAllowStream checks that a stream answers checks in order, even if one is invalid.
func TestAllowStream(t *testing.T) {
	n := apitest.New(t).With(t, "web/login 5/m 2")
	stream, err := quoratev1.NewQuotaServiceClient(dialGRPC(t, n, api.Options{})).AllowStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ok := &quoratev1.AllowRequest{Namespace: "web", Limit: "login", Key: "k"}
	for _, req := range []*quoratev1.AllowRequest{ok, {Namespace: "web", Limit: "nope", Key: "k"}, ok, ok, {Namespace: "web", Limit: "login", Key: "k", Cost: proto.Int64(-1)}} {
		if err := stream.Send(req); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"true", "unknown limit web/nope", "true", "false", "cost: -1"} {
		res, err := stream.Recv()
		if err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		got := res.Error
		if res.Response != nil {
			got = map[bool]string{true: "true", false: "false"}[res.Response.Allowed]
			if res.Response.Limit.GetName() != "login" {
				t.Errorf("answer %d: limit %v", i, res.Response.Limit)
			}
		}
		if !strings.Contains(got, want) {
			t.Errorf("answer %d: %q, want %q", i, got, want)
		}
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last answer: %v", err)
	}
}

// TestAllowStreamAsksForEachCheck checks that the stream of a caller with one namespace ends at the
// first check in another.
func TestAllowStreamAsksForEachCheck(t *testing.T) {
	s := newSecured(t, map[string]rbac.Binding{"ci": {Role: "checker", Scope: rbac.Namespace("web")}})
	c := quoratev1.NewQuotaServiceClient(s.dial(t))
	if stream, err := c.AllowStream(t.Context()); err == nil {
		if _, err = stream.Recv(); status.Code(err) != codes.Unauthenticated {
			t.Errorf("without a credential: %v", err)
		}
	}
	stream, err := c.AllowStream(s.as(t.Context(), "ci"))
	if err != nil {
		t.Fatal(err)
	}
	for _, namespace := range []string{"web", "api"} {
		if err := stream.Send(&quoratev1.AllowRequest{Namespace: namespace, Limit: "per_client", Key: "k"}); err != nil {
			t.Fatal(err)
		}
	}
	if res, err := stream.Recv(); err != nil || !res.Response.GetAllowed() {
		t.Errorf("in web: %v %v", res, err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.PermissionDenied {
		t.Errorf("in api: %v", err)
	}
}
