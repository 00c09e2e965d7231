package rest

import (
	"bufio"
	"context"
	"io"
	"mime"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apitest"
	"github.com/quorate/quorate/internal/quota"
)

// TestExport checks that each form of the file has its type and all points, and that an unknown
// form is an error that names the forms.
func TestExport(t *testing.T) {
	p := apitest.NewPast(t)
	p.Ask("web/login", "a", 10*time.Second, 5, 20, 0, 5)
	s := pastService(p)
	srv := httptest.NewServer(New(s, Options{}).Handler)
	defer srv.Close()
	path := srv.URL + "/v1/history/export?namespace=web&limit=login&from=2026-11-22T11:59:50Z&format="
	for format, want := range map[string]string{"csv": "text/csv", "json": "application/json", "parquet": "application/vnd.apache.parquet", "openmetrics": "application/openmetrics-text"} {
		res, err := http.Get(path + format)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK || !strings.HasPrefix(res.Header.Get("Content-Type"), want) {
			t.Fatalf("%s: %d, %s: %s, %v", format, res.StatusCode, res.Header.Get("Content-Type"), body, err)
		}
		switch lines := strings.Count(string(body), "\n"); {
		case format == "csv" && lines != 11, format == "openmetrics" && lines != 6*(2+10)+1:
			t.Errorf("%s: %d lines: %s", format, lines, body)
		case format == "parquet" && (string(body[:4]) != "PAR1" || string(body[len(body)-4:]) != "PAR1"):
			t.Errorf("parquet: %q", body)
		}
	}
	name := `app~p"; x=~ns~ü~type`
	p.Ask(quota.AccountNamespace+"/"+name, "a", 10*time.Second, 5, 20, 0, 5)
	res, err := http.Get(srv.URL + "/v1/history/export?" + url.Values{"namespace": {quota.AccountNamespace}, "limit": {name}, "format": {"csv"}}.Encode())
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	kind, params, err := mime.ParseMediaType(res.Header.Get("Content-Disposition"))
	if want := quota.AccountNamespace + "-" + name + ".csv"; kind != "attachment" || params["filename"] != want || len(params) != 1 || err != nil {
		t.Errorf("%d, Content-Disposition: %q: %q, %v; want %q", res.StatusCode, res.Header.Get("Content-Disposition"), params, err, want)
	}
	if a := call(t, "GET", path+"xls", ""); a.code != 400 || !strings.Contains(a.body, "must be one of csv, csv_raw, json, parquet, openmetrics") {
		t.Errorf("xls: %d %s", a.code, a.body)
	}
}

// TestRatesOverHTTP checks times, durations and streams in the forms that a query has.
func TestRatesOverHTTP(t *testing.T) {
	s := pastService(apitest.NewPast(t))
	srv := httptest.NewServer(New(s, Options{}).Handler)
	defer srv.Close()
	for path, want := range map[string]int{
		"/v1/history?namespace=web&limit=login&step=1m&from=2026-11-22T11:00:00Z": 200,
		"/v1/history?namespace=web&limit=login&step=60&from=2026-11-22T11:00:00Z": 200,
		"/v1/history?namespace=web&limit=login&step=fast":                         400,
		"/v1/history?namespace=web&limit=login&from=yesterday":                    400,
		"/v1/plan/what-if?namespace=web&limit=login&rate=9/m&burst=9&kind=bucket": 200,
		"/v1/plan/headroom?top=201":                                               400,
		"/v1/plan/report?namespace=web&format=html":                               200,
		"/v1/plan/forecast?namespace=web&limit=login":                             409,
		"/v1/rates?label=eu":                             400,
		"/v1/rates?label=2%3Deu&group_by=1&order=demand": 200,
		"/v1/rates/watch?interval=0.01":                  400,
	} {
		if a := call(t, "GET", srv.URL+path, ""); a.code != want {
			t.Errorf("%s: %d %s; want %d", path, a.code, a.body, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+"/v1/rates/watch", nil)
	req.Header.Set("Accept", "text/event-stream")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	line, err := bufio.NewReader(res.Body).ReadString('\n')
	if err != nil || res.Header.Get("Content-Type") != "text/event-stream" || !strings.HasPrefix(line, `data: {"rates":{"keys":[{"namespace":"web"`) {
		t.Errorf("%v: %q", err, line)
	}
}

// pastService is a service whose clock shows noon.
func pastService(p *apitest.Past) *api.Service {
	s := api.New(p, api.Options{})
	s.Clock = func() time.Time { return apitest.Noon }
	return s
}
