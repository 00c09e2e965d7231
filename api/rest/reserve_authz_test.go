package rest

import (
	"net/http"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
)

// TestReservationOfOthers checks that ending or renewing a reservation needs the permission in each of
// its namespaces, over both protocols, even with its handle.
func TestReservationOfOthers(t *testing.T) {
	reports := func(scope rbac.Scope) rbac.Binding { return rbac.Binding{Role: "reporter", Scope: scope} }
	s := newSecured(t, map[string]rbac.Binding{
		"web": reports(rbac.Namespace("web")), "api": reports(rbac.Namespace("api")), "both": reports(rbac.Everywhere),
	})
	q := quoratev1.NewQuotaServiceClient(s.dial(t))
	h := s.handler()
	web := &quoratev1.AllowRequest{Namespace: "web", Limit: "per_client", Key: "k"}
	api := &quoratev1.AllowRequest{Namespace: "api", Limit: "per_tenant", Key: "k"}
	reserve := func(as string, checks ...*quoratev1.AllowRequest) string {
		t.Helper()
		res, err := q.Reserve(s.as(t.Context(), as), &quoratev1.ReserveRequest{Checks: checks})
		if err != nil || !res.Allowed {
			t.Fatal(res, err)
		}
		if s.Owner != "token:"+as { // it counts for that identity
			t.Errorf("a reservation of %q counts for %q", as, s.Owner)
		}
		return res.Handle
	}
	huge := int64(4e9)
	for _, tc := range []struct{ handle, stranger, owner string }{
		{reserve("web", web), "api", "web"},
		{reserve("both", web, api), "api", "both"},
		{reserve("both", web, api), "web", "both"},
	} {
		ctx := s.as(t.Context(), tc.stranger)
		_, release := q.Release(ctx, &quoratev1.ReleaseRequest{Handle: tc.handle})
		_, settle := q.Settle(ctx, &quoratev1.SettleRequest{Handle: tc.handle, Used: &huge})
		_, renew := q.Renew(ctx, &quoratev1.RenewRequest{Handle: tc.handle})
		for what, err := range map[string]error{"release": release, "settle": settle, "renew": renew} {
			if status.Code(err) != codes.PermissionDenied {
				t.Errorf("%s of %s by %s: %v", what, tc.owner, tc.stranger, err)
			}
			if w := s.do(h, tc.stranger, "POST", "/v1/"+what, `{"handle": "`+tc.handle+`"}`); w.Code != http.StatusForbidden {
				t.Errorf("%s of %s by %s over HTTP: %d %s", what, tc.owner, tc.stranger, w.Code, w.Body)
			}
		}
		ctx = s.as(t.Context(), tc.owner)
		if _, err := q.Renew(ctx, &quoratev1.RenewRequest{Handle: tc.handle}); err != nil {
			t.Errorf("renewed by %s: %v", tc.owner, err)
		}
		if _, err := q.Settle(ctx, &quoratev1.SettleRequest{Handle: tc.handle}); err != nil {
			t.Errorf("settled by %s: %v", tc.owner, err)
		}
		if _, err := q.Release(ctx, &quoratev1.ReleaseRequest{Handle: tc.handle}); status.Code(err) != codes.NotFound {
			t.Errorf("released when settled: %v", err)
		}
	}
}

// TestWhoAcquiresMayRenew checks that the permission to acquire places is enough to keep them beyond their lease.
func TestWhoAcquiresMayRenew(t *testing.T) {
	s := newSecured(t, map[string]rbac.Binding{"web": {Role: "checker", Scope: rbac.Namespace("web")}})
	list := slices.Clone(s.Active.All())
	list = append(list, quota.Limit{LimitName: quota.LimitName{Namespace: "web", Limit: "jobs"}, Kind: quota.Concurrency, Burst: 3})
	set, err := quota.NewLimits(8, list)
	if err != nil {
		t.Fatal(err)
	}
	s.Active = set
	q := quoratev1.NewQuotaServiceClient(s.dial(t))
	ctx := s.as(t.Context(), "web")
	made, err := q.Acquire(ctx, &quoratev1.AcquireRequest{Namespace: "web", Limit: "jobs", Key: "k"})
	if err != nil || !made.Allowed {
		t.Fatal(made, err)
	}
	if _, err := q.Renew(ctx, &quoratev1.RenewRequest{Handle: made.Handle}); err != nil {
		t.Errorf("renewed: %v", err)
	}
	if _, err := q.Release(ctx, &quoratev1.ReleaseRequest{Handle: made.Handle}); err != nil {
		t.Errorf("released: %v", err)
	}
}
