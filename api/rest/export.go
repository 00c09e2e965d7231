package rest

import (
	"bytes"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/api/apijson"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/planner"
)

const (
	exportPath = "/v1/history/export"
)

// getExport answers with the history of a limit as a file. It takes the parameters of GET
// /v1/history, and format.
func (r *router) getExport(w http.ResponseWriter, req *http.Request) (int, error) {
	ask := &quoratev1.HistoryRequest{}
	q, err := query(req, append(apijson.FieldsOf(ask.ProtoReflect().Descriptor()), "format")...)
	if err == nil {
		err = apijson.DecodeQuery(q, ask)
	}
	format := q.Get("format")
	if err == nil && !slices.Contains(planner.ExportFormats, format) {
		err = apierr.Invalid("format", "is %q; must be one of %s", apierr.Clip(format), strings.Join(planner.ExportFormats, ", "))
	}
	if err == nil || apierr.From(err).Field == "format" { // a missing permission takes precedence over a bad format
		if denied := api.AuthorizeRequest(req.Context(), ask); denied != nil {
			err = denied
		}
	}
	if err != nil {
		return 0, err
	}
	res, err := r.Rates.History(req.Context(), ask)
	if err != nil {
		return 0, err
	}
	if format == "json" {
		return writeJSON(w, http.StatusOK, apijson.Format(res)), nil
	}
	var b bytes.Buffer // at most MaxPoints rows
	if _, err := planner.Export(&b, format, res); err != nil {
		return 0, apierr.From(err)
	}
	w.Header().Set("Content-Type", planner.ExportForms[format].Media)
	w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": res.Namespace + "-" + res.Limit + "." + format}))
	w.Write(b.Bytes()) //nolint:errcheck // as in writeJSON
	return http.StatusOK, nil
}
