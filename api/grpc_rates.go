package api

import (
	"context"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

type rateServer struct {
	quoratev1.UnimplementedRateServiceServer
	*service
}

func (s *rateServer) TopRates(ctx context.Context, req *quoratev1.TopRatesRequest) (*quoratev1.TopRatesResponse, error) {
	return reply(s.topRates(ctx, req))
}

func (s *rateServer) WatchRates(req *quoratev1.WatchRatesRequest, stream quoratev1.RateService_WatchRatesServer) error {
	return unlessStuck(s.stuck, func(around func(func() error) error) error {
		send := func(m *quoratev1.WatchRatesResponse) error { return around(func() error { return stream.Send(m) }) }
		if f := s.watchRates(stream.Context(), req, send); f != nil {
			return f
		}
		return stream.Context().Err()
	})
}

func (s *rateServer) History(ctx context.Context, req *quoratev1.HistoryRequest) (*quoratev1.HistoryResponse, error) {
	return reply(s.history(ctx, req))
}

func (s *rateServer) HistoryKeys(ctx context.Context, req *quoratev1.HistoryKeysRequest) (*quoratev1.HistoryKeysResponse, error) {
	return reply(s.historyKeys(ctx, req))
}

func (s *rateServer) HistoryLimits(ctx context.Context, req *quoratev1.HistoryLimitsRequest) (*quoratev1.HistoryLimitsResponse, error) {
	return reply(s.historyLimits(ctx, req))
}

func (s *rateServer) Headroom(ctx context.Context, req *quoratev1.HeadroomRequest) (*quoratev1.HeadroomResponse, error) {
	return reply(s.headroom(ctx, req))
}

func (s *rateServer) WhatIf(ctx context.Context, req *quoratev1.WhatIfRequest) (*quoratev1.WhatIfResponse, error) {
	return reply(s.whatIf(ctx, req))
}

func (s *rateServer) Suggest(ctx context.Context, req *quoratev1.SuggestRequest) (*quoratev1.SuggestResponse, error) {
	return reply(s.suggest(ctx, req))
}

func (s *rateServer) Forecast(ctx context.Context, req *quoratev1.ForecastRequest) (*quoratev1.ForecastResponse, error) {
	return reply(s.forecast(ctx, req))
}

func (s *rateServer) Noisy(ctx context.Context, req *quoratev1.NoisyRequest) (*quoratev1.NoisyResponse, error) {
	return reply(s.noisy(ctx, req))
}

func (s *rateServer) Report(ctx context.Context, req *quoratev1.RateServiceReportRequest) (*quoratev1.RateServiceReportResponse, error) {
	return reply(s.planReport(ctx, req))
}
