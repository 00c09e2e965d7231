package export

import (
	"bytes"
	"encoding/csv"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

func someRows() []Row {
	start := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	return []Row{
		{Namespace: "web", Limit: "login", Start: start, Seconds: 60, Attempted: 1 << 60, Admitted: 600, Refused: 7, Over: new(.125), Needless: new(2.), NeedlessAtMost: new(2703.), Peak: new(40.), Mean: 10.5, P50: new(9.), P95: new(22.25), P99: new(39.), Complete: true},
		{Namespace: "web", Limit: "login", Key: "a \"b\"\\,\nc", Start: start.Add(time.Minute), Seconds: 60, Attempted: 5, Missing: "n2 n3", More: new(int64(3))},
	}
}

// TestParquet checks that a Parquet reader returns the written rows, and that the columns match
// Header.
func TestParquet(t *testing.T) {
	var b bytes.Buffer
	if err := Parquet(&b, someRows()); err != nil {
		t.Fatal(err)
	}
	got, err := parquet.Read[Row](bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		got[i].Start = got[i].Start.UTC()
	}
	if !reflect.DeepEqual(got, someRows()) {
		t.Errorf("got %+v", got)
	}
	f, err := parquet.OpenFile(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range f.Schema().Columns() {
		if c[0] != Header[i] {
			t.Errorf("column %d is %v; the CSV has %s", i, c, Header[i])
		}
	}
	b.Reset()
	if err := Parquet(&b, nil); err != nil {
		t.Errorf("no rows: %v", err)
	}
}

// TestFormulas checks that Cell escapes texts that a spreadsheet would run as formulas.
func TestFormulas(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "-": "-", "web": "web", "=cmd|' /C calc'!A0": "'=cmd|' /C calc'!A0", "+1+1": "'+1+1", "-2": "-2", "-1.5e3": "-1.5e3", "-x": "'-x", "@SUM(A1)": "'@SUM(A1)", "\t=1": "'\t=1", "\r=1": "'\r=1", "a=1": "a=1",
	} {
		if got := Cell(in); got != want {
			t.Errorf("%q: %q; want %q", in, got, want)
		}
	}
	rows := []Row{{Namespace: "web", Limit: "login", Key: "=evil()"}}
	var safe, raw bytes.Buffer
	if err := CSV(&safe, rows); err != nil || !strings.Contains(safe.String(), ",'=evil(),") {
		t.Errorf("%v %s", err, safe.String())
	}
	if err := RawCSV(&raw, rows); err != nil || !strings.Contains(raw.String(), ",=evil(),") {
		t.Errorf("%v %s", err, raw.String())
	}
}

func TestCSV(t *testing.T) {
	var b bytes.Buffer
	if err := CSV(&b, someRows()); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(rows) != 3 || rows[2][2] != someRows()[1].Key || rows[1][5] != "1152921504606846976" || rows[1][3] != "2026-11-22T12:00:00Z" || rows[1][16] != "true" || rows[2][17] != "n2 n3" || rows[1][18] != "" || rows[2][18] != "3" || rows[1][10] != "2703" || rows[1][11] != "40" || rows[2][11] != "" {
		t.Errorf("%v: %q", err, rows)
	}
}

// TestOpenMetrics checks that a Prometheus parser reads values with their labels and timestamps.
func TestOpenMetrics(t *testing.T) {
	var b bytes.Buffer
	if err := OpenMetrics(&b, someRows()); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(b.String(), "\n# EOF\n") {
		t.Error("it does not end with # EOF")
	}
	p := expfmt.NewTextParser(model.UTF8Validation)
	got, err := p.TextToMetricFamilies(bytes.NewReader(b.Bytes()))
	if err != nil || len(got) != len(families) {
		t.Fatalf("%v: %d families", err, len(got))
	}
	peak := got["quorate_history_demand_peak_tokens_per_second"].GetMetric()
	if len(peak) != 1 || // the seconds of a single key are not known
		peak[0].GetGauge().GetValue() != 40 || peak[0].GetTimestampMs() != someRows()[0].Start.Unix()+60 || len(peak[0].GetLabel()) != 2 {
		t.Errorf("%v", peak)
	}
	key := ""
	for _, l := range got["quorate_history_attempted_tokens"].GetMetric()[1].GetLabel() {
		if l.GetName() == "key" {
			key = l.GetValue()
		}
	}
	if key != someRows()[1].Key {
		t.Errorf("the key is %q", key)
	}
}

// TestBackfill checks that promtool, if installed, creates blocks from the output of OpenMetrics.
func TestBackfill(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed")
	}
	file := filepath.Join(t.TempDir(), "history.om")
	var b bytes.Buffer
	if err := OpenMetrics(&b, someRows()); err != nil {
		t.Fatal(err)
	}
	write(t, file, b.Bytes())
	out, err := exec.CommandContext(t.Context(), promtool, "tsdb", "create-blocks-from", "openmetrics", file, t.TempDir()).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "BLOCK ULID") {
		t.Errorf("%v: %s", err, out)
	}
}

func write(t *testing.T, file string, data []byte) {
	t.Helper()
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
