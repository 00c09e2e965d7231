package api

import (
	"context"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// reply turns what a call returned into what gRPC sends.
func reply[R any](res *R, f error) (*R, error) {
	if f != nil {
		return nil, f
	}
	return res, nil
}

func (s *quotaServer) AllowAll(ctx context.Context, req *quoratev1.AllowAllRequest) (*quoratev1.AllowAllResponse, error) {
	return reply(s.allowAll(ctx, req))
}

func (s *quotaServer) Refund(ctx context.Context, req *quoratev1.RefundRequest) (*quoratev1.RefundResponse, error) {
	return reply(s.refund(ctx, req))
}

func (s *quotaServer) Report(ctx context.Context, req *quoratev1.ReportRequest) (*quoratev1.ReportResponse, error) {
	return reply(s.report(ctx, req))
}

func (s *quotaServer) Reserve(ctx context.Context, req *quoratev1.ReserveRequest) (*quoratev1.ReserveResponse, error) {
	return reply(s.reserve(ctx, req))
}

func (s *quotaServer) Settle(ctx context.Context, req *quoratev1.SettleRequest) (*quoratev1.SettleResponse, error) {
	return reply(s.settle(ctx, req))
}

func (s *quotaServer) Renew(ctx context.Context, req *quoratev1.RenewRequest) (*quoratev1.RenewResponse, error) {
	return reply(s.renew(ctx, req))
}

func (s *quotaServer) Acquire(ctx context.Context, req *quoratev1.AcquireRequest) (*quoratev1.AcquireResponse, error) {
	return reply(s.acquire(ctx, req))
}

func (s *quotaServer) Release(ctx context.Context, req *quoratev1.ReleaseRequest) (*quoratev1.ReleaseResponse, error) {
	return reply(s.release(ctx, req))
}

type limitServer struct {
	quoratev1.UnimplementedLimitServiceServer
	*service
}

func (s *limitServer) GetLimits(ctx context.Context, req *quoratev1.GetLimitsRequest) (*quoratev1.GetLimitsResponse, error) {
	return reply(s.getLimits(ctx, req))
}

func (s *limitServer) ApplyLimits(ctx context.Context, req *quoratev1.ApplyLimitsRequest) (*quoratev1.ApplyLimitsResponse, error) {
	return reply(s.apply(ctx, req))
}

func (s *limitServer) ValidateLimits(ctx context.Context, req *quoratev1.ValidateLimitsRequest) (*quoratev1.ValidateLimitsResponse, error) {
	return reply(s.validate(ctx, req))
}

func (s *limitServer) DiffLimits(ctx context.Context, req *quoratev1.DiffLimitsRequest) (*quoratev1.DiffLimitsResponse, error) {
	return reply(s.diff(ctx, req))
}

func (s *limitServer) ListVersions(ctx context.Context, req *quoratev1.ListVersionsRequest) (*quoratev1.ListVersionsResponse, error) {
	return reply(s.versions(ctx, req))
}

func (s *limitServer) RollbackLimits(ctx context.Context, req *quoratev1.RollbackLimitsRequest) (*quoratev1.RollbackLimitsResponse, error) {
	return reply(s.rollback(ctx, req))
}

func (s *limitServer) DeleteLimits(ctx context.Context, req *quoratev1.DeleteLimitsRequest) (*quoratev1.DeleteLimitsResponse, error) {
	return reply(s.deleteLimits(ctx, req))
}

type overrideServer struct {
	quoratev1.UnimplementedOverrideServiceServer
	*service
}

func (s *overrideServer) SetOverrides(ctx context.Context, req *quoratev1.SetOverridesRequest) (*quoratev1.SetOverridesResponse, error) {
	return reply(s.setOverrides(ctx, req))
}

func (s *overrideServer) DeleteOverrides(ctx context.Context, req *quoratev1.DeleteOverridesRequest) (*quoratev1.DeleteOverridesResponse, error) {
	return reply(s.deleteOverrides(ctx, req))
}

func (s *overrideServer) ListOverrides(ctx context.Context, req *quoratev1.ListOverridesRequest) (*quoratev1.ListOverridesResponse, error) {
	return reply(s.listOverrides(ctx, req))
}

func (s *overrideServer) GetOverride(ctx context.Context, req *quoratev1.GetOverrideRequest) (*quoratev1.GetOverrideResponse, error) {
	return reply(s.getOverride(ctx, req))
}

type keyServer struct {
	quoratev1.UnimplementedKeyServiceServer
	*service
}

func (s *keyServer) GetKey(ctx context.Context, req *quoratev1.GetKeyRequest) (*quoratev1.GetKeyResponse, error) {
	return reply(s.getKey(ctx, req))
}

func (s *keyServer) ResetKey(ctx context.Context, req *quoratev1.ResetKeyRequest) (*quoratev1.ResetKeyResponse, error) {
	return reply(s.resetKey(ctx, req))
}

type eventServer struct {
	quoratev1.UnimplementedEventServiceServer
	*service
}

func (s *eventServer) Watch(req *quoratev1.WatchRequest, stream quoratev1.EventService_WatchServer) error {
	flush := func() error { return nil }
	first := func() error { return stream.SendHeader(nil) }
	send := func() error {
		f := first
		first = flush
		return f()
	}
	return unlessStuck(s.stuck, func(around func(func() error) error) error {
		event := func(m *quoratev1.WatchResponse) error { return around(func() error { return stream.Send(m) }) }
		if f := s.watch(stream.Context(), req, event, send); f != nil {
			return f
		}
		return stream.Context().Err()
	})
}
