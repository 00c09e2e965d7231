package api

import (
	"net/http"
	"strings"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// rateRoutes are the routes of rates, history and planning.
func (r *router) rateRoutes() []route {
	const get = http.MethodGet
	return []route{
		ordinary(get, "/v1/rates", "RateService.TopRates", fromQuery, r.topRates),
		{method: get, path: "/v1/rates/watch", rpc: "RateService.WatchRates", req: &quoratev1.WatchRatesRequest{}, res: &quoratev1.WatchRatesResponse{}, serve: r.getRatesWatch},
		ordinary(get, "/v1/history", "RateService.History", fromQuery, r.history),
		{method: get, path: exportPath, rpc: "RateService.History", req: &quoratev1.HistoryRequest{}, res: &quoratev1.HistoryResponse{}, serve: r.getExport},
		ordinary(get, "/v1/history/keys", "RateService.HistoryKeys", fromQuery, r.historyKeys),
		ordinary(get, "/v1/history/limits", "RateService.HistoryLimits", fromQuery, r.historyLimits),
		ordinary(get, "/v1/plan/headroom", "RateService.Headroom", fromQuery, r.headroom),
		ordinary(get, "/v1/plan/what-if", "RateService.WhatIf", fromQuery, r.whatIf),
		ordinary(get, "/v1/plan/suggest", "RateService.Suggest", fromQuery, r.suggest),
		ordinary(get, "/v1/plan/forecast", "RateService.Forecast", fromQuery, r.forecast),
		ordinary(get, "/v1/plan/noisy", "RateService.Noisy", fromQuery, r.noisy),
		{method: get, path: "/v1/plan/report", rpc: "RateService.Report", req: &quoratev1.RateServiceReportRequest{}, res: &quoratev1.RateServiceReportResponse{}, serve: r.getReport},
	}
}

// getRatesWatch streams rates: one JSON object per line, or as server-sent events when the
// caller accepts text/event-stream.
func (r *router) getRatesWatch(w http.ResponseWriter, req *http.Request) int {
	watch := &quoratev1.WatchRatesRequest{}
	f := readQuery(req, watch)
	if f == nil {
		f = admit(req.Context(), watch)
	}
	if f != nil {
		return writeFault(w, f)
	}
	prefix, end, contentType := "", "\n", "application/x-ndjson"
	if strings.Contains(req.Header.Get("Accept"), "text/event-stream") {
		prefix, end, contentType = "data: ", "\n\n", "text/event-stream"
	}
	conn := http.NewResponseController(w)
	var line []byte
	started := false
	f = r.watchRates(req.Context(), watch, func(m *quoratev1.WatchRatesResponse) error {
		if !started {
			started = true
			_ = conn.SetReadDeadline(time.Time{}) // as in getEvents
			w.Header().Set("Content-Type", contentType)
			w.Header().Set("Cache-Control", "no-store")
			w.WriteHeader(http.StatusOK)
		}
		_ = conn.SetWriteDeadline(time.Now().Add(eventWriteTimeout))
		line = append(appendMessage(append(line[:0], prefix...), m.ProtoReflect()), end...)
		if _, err := w.Write(line); err != nil {
			return err
		}
		// The pause until the next write does not count.
		err := conn.Flush()
		_ = conn.SetWriteDeadline(time.Now().Add(eventWriteTimeout + maxWatchPause))
		return err
	})
	return streamed(w, req, started, f)
}
