package rest

import (
	"cmp"
	"net/http"
	"strings"
	"time"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apijson"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// rateRoutes returns the routes of rates, history and planning.
func (r *router) rateRoutes() []route {
	const get = http.MethodGet
	return []route{
		ordinary(get, "/v1/rates", "RateService.TopRates", fromQuery, r.Rates.TopRates),
		{method: get, path: "/v1/rates/watch", rpc: "RateService.WatchRates", req: &quoratev1.WatchRatesRequest{}, res: &quoratev1.WatchRatesResponse{}, serve: r.getRatesWatch},
		ordinary(get, "/v1/history", "RateService.History", fromQuery, r.Rates.History),
		{method: get, path: exportPath, rpc: "RateService.History", req: &quoratev1.HistoryRequest{}, res: &quoratev1.HistoryResponse{}, serve: r.getExport},
		ordinary(get, "/v1/history/keys", "RateService.HistoryKeys", fromQuery, r.Rates.HistoryKeys),
		ordinary(get, "/v1/history/limits", "RateService.HistoryLimits", fromQuery, r.Rates.HistoryLimits),
		ordinary(get, "/v1/plan/headroom", "RateService.Headroom", fromQuery, r.Rates.Headroom),
		ordinary(get, "/v1/plan/what-if", "RateService.WhatIf", fromQuery, r.Rates.WhatIf),
		ordinary(get, "/v1/plan/suggest", "RateService.Suggest", fromQuery, r.Rates.Suggest),
		ordinary(get, "/v1/plan/forecast", "RateService.Forecast", fromQuery, r.Rates.Forecast),
		ordinary(get, "/v1/plan/noisy", "RateService.Noisy", fromQuery, r.Rates.Noisy),
		{method: get, path: "/v1/plan/report", rpc: "RateService.Report", req: &quoratev1.RateServiceReportRequest{}, res: &quoratev1.RateServiceReportResponse{}, serve: r.getReport},
	}
}

// getRatesWatch streams rates: one JSON object per line, or server-sent events if the caller
// accepts text/event-stream.
func (r *router) getRatesWatch(w http.ResponseWriter, req *http.Request) (int, error) {
	watch := &quoratev1.WatchRatesRequest{}
	if err := readAuthorized(req, watch); err != nil {
		return 0, err
	}
	out := newStream(w, req)
	ctx, stop := r.WhileAuthorized(req.Context())
	err := r.Rates.Stream(ctx, watch, func(m *quoratev1.WatchRatesResponse) error {
		out.start()
		_ = out.conn.SetWriteDeadline(time.Now().Add(api.EventWriteTimeout))
		if err := out.write(m.ProtoReflect()); err != nil {
			return err
		}
		err := out.flush()
		_ = out.conn.SetWriteDeadline(time.Now().Add(api.EventWriteTimeout + api.MaxWatchPause)) // the pause until the next write does not count
		return err
	})
	return out.ended(cmp.Or(stop(), err))
}

// getReport answers with the document itself if Accept asks for HTML or text.
func (r *router) getReport(w http.ResponseWriter, req *http.Request) (int, error) {
	q := &quoratev1.RateServiceReportRequest{}
	if err := readAuthorized(req, q); err != nil {
		return 0, err
	}
	accept := req.Header.Get("Accept")
	page := strings.Contains(accept, "text/html")
	if page && q.Format == 0 {
		q.Format = quoratev1.ReportFormat_REPORT_FORMAT_HTML
	}
	res, err := r.Rates.Report(req.Context(), q)
	if err != nil {
		return 0, err
	}
	if !page && !strings.Contains(accept, "text/plain") {
		return writeJSON(w, http.StatusOK, apijson.Format(res)), nil
	}
	w.Header().Set("Content-Type", res.MediaType)
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	w.Write([]byte(res.Content)) //nolint:errcheck // as in writeJSON
	return http.StatusOK, nil
}
