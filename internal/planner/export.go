package planner

import (
	"io"
	"strings"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/history/export"
)

// ParquetMedia is the media type of Parquet files.
const ParquetMedia = "application/vnd.apache.parquet"

// ExportForms maps each export format to its media type and writer. JSON is missing: it is the form of all answers.
var ExportForms = map[string]struct {
	Media string
	write func(io.Writer, []export.Row) error
}{
	"csv":         {"text/csv; charset=utf-8", export.CSV},
	"csv_raw":     {"text/csv; charset=utf-8", export.RawCSV},
	"parquet":     {ParquetMedia, export.Parquet},
	"openmetrics": {"application/openmetrics-text; version=1.0.0; charset=utf-8", export.OpenMetrics},
}

// ExportFormats lists the values of the parameter format.
var ExportFormats = []string{"csv", "csv_raw", "json", "parquet", "openmetrics"}

// Export writes a history in the format of other programs: csv, csv_raw, parquet or openmetrics. It returns
// false if the format does not exist.
func Export(w io.Writer, format string, res *quoratev1.HistoryResponse) (bool, error) {
	form, ok := ExportForms[format]
	if !ok {
		return false, nil
	}
	rows := make([]export.Row, 0, len(res.Points))
	for _, p := range res.Points {
		row := export.Row{
			Namespace: res.Namespace, Limit: res.Limit, Key: res.Key, Start: p.Start.AsTime(), Seconds: p.Seconds,
			Attempted: p.Attempted, Admitted: p.Admitted, Refused: p.Refused, Mean: p.Mean, Complete: p.Complete, Missing: strings.Join(p.Missing, " "),
		}
		if res.Key == "" {
			row.Over, row.Needless, row.NeedlessAtMost = &p.OverAdmitted, &p.NeedlessRefusals, &p.NeedlessRefusalsAtMost
			row.Peak, row.P50, row.P95, row.P99 = &p.Peak, &p.P50, &p.P95, &p.P99
		} else {
			row.More = &p.Error
		}
		rows = append(rows, row)
	}
	return true, form.write(w, rows)
}
