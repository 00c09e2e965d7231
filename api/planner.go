package api

import (
	"context"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

const planFromHistory = "plan from the history of the limits"

func (s *service) headroom(_ context.Context, _ *quoratev1.HeadroomRequest) (*quoratev1.HeadroomResponse, *fault) {
	return nil, notServed(planFromHistory)
}

func (s *service) whatIf(_ context.Context, _ *quoratev1.WhatIfRequest) (*quoratev1.WhatIfResponse, *fault) {
	return nil, notServed(planFromHistory)
}

func (s *service) suggest(_ context.Context, _ *quoratev1.SuggestRequest) (*quoratev1.SuggestResponse, *fault) {
	return nil, notServed(planFromHistory)
}

func (s *service) forecast(_ context.Context, _ *quoratev1.ForecastRequest) (*quoratev1.ForecastResponse, *fault) {
	return nil, notServed(planFromHistory)
}

func (s *service) noisy(_ context.Context, _ *quoratev1.NoisyRequest) (*quoratev1.NoisyResponse, *fault) {
	return nil, notServed(planFromHistory)
}

func (s *service) planReport(_ context.Context, _ *quoratev1.RateServiceReportRequest) (*quoratev1.RateServiceReportResponse, *fault) {
	return nil, notServed(planFromHistory)
}
