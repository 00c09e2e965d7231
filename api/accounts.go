package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/api/apierr"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/apiproto"
)

// AccountService applies operations on accounts for applications. The application itself authorizes
// its users.
type AccountService struct {
	quoratev1.UnimplementedAccountServiceServer
	*accountCalls
}

// accountCalls holds the code that AccountService and AccountAdminService share.
type accountCalls struct {
	*core
	node accountNode
}

// ApplyOps implements AccountService.ApplyOps. It checks no permission: the application has
// authorized the caller.
func (s *AccountService) ApplyOps(ctx context.Context, req *quoratev1.ApplyOpsRequest) (*quoratev1.ApplyOpsResponse, error) {
	by, ttl, ops, err := s.opsCall(ctx, req)
	if err != nil {
		return nil, err
	}
	return s.applyChecked(ctx, by, req.RequestId, ttl, ops)
}

// opsCall validates an ApplyOps request, and returns the caller's identity, the time to remember
// the request id and the operations.
func (s *accountCalls) opsCall(ctx context.Context, req *quoratev1.ApplyOpsRequest) (by string, ttl time.Duration, ops []account.Op, err error) {
	if ttl, err = requestID(req); err != nil {
		return "", 0, nil, err
	}
	if ops, err = opsOf(req.Ops); err != nil {
		return "", 0, nil, err
	}
	by, err = s.Identity(ctx)
	return by, ttl, ops, err
}

func (s *accountCalls) applyChecked(ctx context.Context, by, id string, ttl time.Duration, ops []account.Op) (*quoratev1.ApplyOpsResponse, error) {
	out, err := s.node.ApplyOps(ctx, account.Caller{By: by, Owner: Owner(ctx)}, id, ttl, ops)
	if err != nil {
		return nil, fromApply(err, id)
	}
	switch out.Code {
	case account.Done, account.Repeated:
		return &quoratev1.ApplyOpsResponse{Applied: true, Repeated: out.Code == account.Repeated, OriginallySet: apiproto.Time(out.At), Results: resultsProto(out.Results)}, nil
	case account.Failed:
		return &quoratev1.ApplyOpsResponse{Results: resultsProto(out.Results)}, nil
	case account.Mismatched:
		return nil, &apierr.Error{
			Code: codes.AlreadyExists, HTTP: http.StatusUnprocessableEntity, Reason: "REQUEST_ID_REUSED", Field: "request_id",
			Detail: fmt.Sprintf("%q was used by %q for other operations; nothing was applied, give these an id of their own", apierr.Clip(id), apierr.Clip(by)),
		}
	case account.Held:
		return nil, heldFault("other calls held the same accounts for too long; nothing was applied, try again")
	case account.Full:
		return nil, storeFull(out.Message + "; nothing was applied")
	}
	return nil, &apierr.Error{Code: codes.Internal, HTTP: http.StatusInternalServerError, Reason: "INTERNAL", Detail: fmt.Sprintf("the node answered with the unknown outcome %d", out.Code)}
}

func storeFull(detail string) *apierr.Error {
	return &apierr.Error{Code: codes.ResourceExhausted, HTTP: http.StatusServiceUnavailable, Reason: "STORE_FULL", Detail: detail}
}

func heldFault(detail string) *apierr.Error {
	return &apierr.Error{Code: codes.Aborted, HTTP: http.StatusServiceUnavailable, Reason: "ACCOUNTS_HELD", Retry: time.Second, Detail: detail}
}

// fromAccounts maps an error of Accounts or PolicyStore to an API error.
func fromAccounts(err error) *apierr.Error {
	if full, ok := errors.AsType[*account.PoliciesFullError](err); ok {
		return storeFull(full.Error())
	}
	if e, ok := asType[interface{ Aborted() bool }](err); ok && e.Aborted() {
		return heldFault(err.Error() + "; try again")
	}
	if e, ok := asType[interface{ TooBusy() bool }](err); ok && e.TooBusy() {
		return &apierr.Error{
			Code: codes.ResourceExhausted, HTTP: http.StatusServiceUnavailable, Reason: "OVERLOADED", Retry: time.Second,
			Detail: err.Error() + "; try again later",
		}
	}
	f := apierr.From(err)
	if f.Reason == "NO_LEADER" {
		f.Detail = err.Error() + "; try again in a second"
	}
	return f
}

// fromApply maps the error of a change as fromAccounts does. If the outcome may be unknown, the
// detail says how to repeat the call safely.
func fromApply(err error, id string) *apierr.Error {
	f := fromAccounts(err)
	unknown := f.Code == codes.Unavailable || f.Code == codes.DeadlineExceeded || errors.Is(err, context.Canceled)
	e, ok := asType[interface{ MayBeDone() bool }](err)
	switch {
	case !unknown || ok && !e.MayBeDone():
	case id != "":
		f.Detail = err.Error() + "; the change may have been applied: repeat it with the same request_id to apply it once"
	default:
		f.Retry = 0 // a caller that repeats the call may charge twice
		f.Detail = err.Error() + "; the change may have been applied: look at the accounts before you repeat it, and send a request_id"
	}
	return f
}

// asType calls errors.As for an interface T that need not embed error, which errors.AsType rejects.
func asType[T any](err error) (as T, ok bool) {
	ok = errors.As(err, &as)
	return as, ok
}

// accountIDs validates and returns the account ids of a call: 1 to maxAccounts.
func (s *accountCalls) accountIDs(req *quoratev1.GetAccountsRequest) ([]account.ID, error) {
	if n := len(req.Accounts); n < 1 || n > maxAccounts {
		return nil, apierr.Invalid("accounts", "%d accounts; must be 1 to %d", n, maxAccounts)
	}
	ids := make([]account.ID, len(req.Accounts))
	for i, p := range req.Accounts {
		var err error
		if ids[i], err = accountID(fmt.Sprintf("accounts[%d]", i), p); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// GetAccounts implements quoratev1.AccountServiceServer.
func (s *AccountService) GetAccounts(ctx context.Context, req *quoratev1.GetAccountsRequest) (*quoratev1.GetAccountsResponse, error) {
	ids, err := s.accountIDs(req)
	if err != nil {
		return nil, err
	}
	return s.readAccounts(ctx, ids, req.Stale)
}

func (s *accountCalls) readAccounts(ctx context.Context, ids []account.ID, stale bool) (*quoratev1.GetAccountsResponse, error) {
	states, at, err := s.node.GetAccounts(ctx, ids, stale)
	if err != nil {
		return nil, fromAccounts(err)
	}
	return &quoratev1.GetAccountsResponse{Accounts: statesProto(states), At: apiproto.Time(at)}, nil
}

// accountPage validates a page size and returns it, or the default for 0.
func accountPage(size int32) (int, error) {
	if size < 0 || size > maxAccounts {
		return 0, apierr.Invalid("page_size", "%d; must be 1 to %d, or 0 for %d", size, maxAccounts, usualAccounts)
	}
	if size == 0 {
		return usualAccounts, nil
	}
	return int(size), nil
}
