// Package export writes the history of a limit in formats of other programs: CSV, Parquet,
// and OpenMetrics text with timestamps, which "promtool tsdb create-blocks-from openmetrics"
// imports into Prometheus.
//
// Each row is a point. All formats contain the same numbers; only CSV, Parquet and JSON
// include whether a point is complete. The package keeps only the rows that it gets, so the
// caller bounds its memory by bounding the rows.
package export

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
)

// Row is a point of a limit's history. Amounts are in tokens, demand is in tokens per second. A
// nil field is not recorded: the history has no seconds of a single key, and More has no meaning
// for all keys together.
type Row struct {
	Namespace      string    `parquet:"namespace,dict"`
	Limit          string    `parquet:"limit,dict"`
	Key            string    `parquet:"key,dict"` // empty for all keys together
	Start          time.Time `parquet:"start,timestamp(millisecond)"`
	Seconds        int32     `parquet:"seconds"`
	Attempted      int64     `parquet:"attempted"`
	Admitted       int64     `parquet:"admitted"`
	Refused        int64     `parquet:"refused"`
	Over           *float64  `parquet:"over_admitted,optional"`
	Needless       *float64  `parquet:"needless_refusals,optional"` // lower bound
	NeedlessAtMost *float64  `parquet:"needless_refusals_at_most,optional"`
	Peak           *float64  `parquet:"peak,optional"`
	Mean           float64   `parquet:"mean"`
	P50            *float64  `parquet:"p50,optional"`
	P95            *float64  `parquet:"p95,optional"`
	P99            *float64  `parquet:"p99,optional"`
	Complete       bool      `parquet:"complete"`
	Missing        string    `parquet:"missing"`       // nodes, separated by spaces
	More           *int64    `parquet:"more,optional"` // for a key: upper bound of the tokens missing from Attempted
}

// Header is the first line of the CSV, and lists the names of the Parquet columns.
var Header = []string{
	"namespace", "limit", "key", "start", "seconds", "attempted", "admitted", "refused", "over_admitted", "needless_refusals", "needless_refusals_at_most",
	"peak", "mean", "p50", "p95", "p99", "complete", "missing", "more",
}

// Cell escapes a CSV text that a spreadsheet would run as a formula: it prepends an apostrophe to a
// text that begins like a formula and is not a number.
func Cell(s string) string {
	if len(s) < 2 || !strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return s
	}
	if _, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64); err == nil {
		return s
	}
	return "'" + s
}

// RawCSV writes rows as CSV does, but does not escape texts. It is for programs that read the CSV.
func RawCSV(w io.Writer, rows []Row) error {
	return writeCSV(w, rows, func(s string) string { return s })
}

// CSV writes rows in RFC 4180 format: Header first, texts escaped by Cell, times in RFC 3339, UTC.
func CSV(w io.Writer, rows []Row) error { return writeCSV(w, rows, Cell) }

func writeCSV(w io.Writer, rows []Row, cell func(string) string) error {
	out := csv.NewWriter(w)
	_ = out.Write(Header) // out.Error returns its error
	for i := range rows {
		r := &rows[i]
		_ = out.Write([]string{
			cell(r.Namespace), cell(r.Limit), cell(r.Key), r.Start.UTC().Format(time.RFC3339), strconv.Itoa(int(r.Seconds)),
			strconv.FormatInt(r.Attempted, 10), strconv.FormatInt(r.Admitted, 10), strconv.FormatInt(r.Refused, 10),
			known(r.Over), known(r.Needless), known(r.NeedlessAtMost), known(r.Peak), number(r.Mean), known(r.P50), known(r.P95), known(r.P99),
			strconv.FormatBool(r.Complete), cell(r.Missing), more(r),
		})
	}
	out.Flush()
	return out.Error()
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// known formats a number; it returns "" for nil.
func known(v *float64) string {
	if v == nil {
		return ""
	}
	return number(*v)
}

func more(r *Row) string {
	if r.More == nil {
		return ""
	}
	return strconv.FormatInt(*r.More, 10)
}

// Parquet writes rows as one Parquet file with Snappy compression.
func Parquet(w io.Writer, rows []Row) error {
	out := parquet.NewGenericWriter[Row](w, parquet.Compression(&parquet.Snappy))
	if _, err := out.Write(rows); err != nil {
		return fmt.Errorf("parquet: %w", err)
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("parquet: %w", err)
	}
	return nil
}

// families lists the OpenMetrics metrics. Each is a gauge about the seconds before its timestamp.
var families = []struct {
	name, help string
	value      func(*Row) string // returns "" if the value is unknown
}{
	{"quorate_history_attempted_tokens", "Tokens requested in the point.", func(r *Row) string { return strconv.FormatInt(r.Attempted, 10) }},
	{"quorate_history_admitted_tokens", "Tokens admitted in the point.", func(r *Row) string { return strconv.FormatInt(r.Admitted, 10) }},
	{"quorate_history_refused_tokens", "Tokens refused in the point.", func(r *Row) string { return strconv.FormatInt(r.Refused, 10) }},
	{"quorate_history_demand_peak_tokens_per_second", "The highest demand of a second.", func(r *Row) string { return known(r.Peak) }},
	{"quorate_history_demand_mean_tokens_per_second", "The mean demand of a second.", func(r *Row) string { return number(r.Mean) }},
	{"quorate_history_demand_p99_tokens_per_second", "What 99 of 100 seconds did not exceed.", func(r *Row) string { return known(r.P99) }},
}

// OpenMetrics writes rows as OpenMetrics 1.0 text. The timestamp of a sample is the end of its
// point. Only rows of a single key have the label key: a caller that exports a key wants it.
func OpenMetrics(w io.Writer, rows []Row) error {
	var b strings.Builder
	for _, f := range families {
		fmt.Fprintf(&b, "# TYPE %s gauge\n# HELP %s %s\n", f.name, f.name, f.help)
		for i := range rows {
			r := &rows[i]
			value := f.value(r)
			if value == "" {
				continue
			}
			key := ""
			if r.Key != "" {
				key = `,key="` + escape(r.Key) + `"`
			}
			fmt.Fprintf(&b, "%s{namespace=\"%s\",limit=\"%s\"%s} %s %d\n", f.name, escape(r.Namespace), escape(r.Limit), key,
				value, r.Start.Unix()+int64(r.Seconds))
		}
	}
	b.WriteString("# EOF\n")
	_, err := io.WriteString(w, b.String())
	return err
}

var escaper = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

func escape(s string) string { return escaper.Replace(s) }
