package checks

import (
	"bytes"
	"strings"
	"testing"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/cli/render"
)

// TestNeedlessColumn: tables of keys and groups say how much was refused without need, between two bounds,
// and have no such column where nothing was; CSV has both bounds always.
func TestNeedlessColumn(t *testing.T) {
	for name, tt := range map[string]struct {
		least, most float64
		want        string // none: no column
		csv         string
	}{
		"nothing":    {0, 0, "", "0,0"},
		"a range":    {0, 2703, "0 to 2703", "0,2703"},
		"one figure": {12, 12, "12", "12,12"},
	} {
		t.Run(name, func(t *testing.T) {
			res := &quoratev1.TopRatesResponse{
				Keys:   []*quoratev1.KeyRate{{Namespace: "n", Limit: "l", Key: "other"}, {Namespace: "n", Limit: "l", Key: "k", NeedlessRefusals: tt.least, NeedlessRefusalsAtMost: tt.most}},
				Groups: []*quoratev1.RateGroup{{Value: "v", NeedlessRefusals: tt.least, NeedlessRefusalsAtMost: tt.most}},
			}
			key := &quoratev1.GetKeyResponse{Counters: res.Keys}
			for table, write := range map[string]func(*bytes.Buffer) error{
				"rates":  func(b *bytes.Buffer) error { return printRates(b, res) },
				"groups": func(b *bytes.Buffer) error { return printGroups(b, res) },
				"key":    func(b *bytes.Buffer) error { return printKey(b, key) },
			} {
				var b bytes.Buffer
				if err := write(&b); err != nil {
					t.Fatal(err)
				}
				if has := strings.Contains(b.String(), "NEEDLESS"); has != (tt.want != "") || !strings.Contains(b.String(), tt.want) {
					t.Errorf("%s: want %q:\n%s", table, tt.want, b.String())
				}
			}
			var b bytes.Buffer
			titles, cells := needlessColumns(&render.CSVOut{To: &b}, res.Groups)
			if got := strings.Join(cells(res.Groups[0]), ","); got != tt.csv || len(titles) != 2 {
				t.Errorf("CSV: %q under %q; want %q", got, titles, tt.csv)
			}
		})
	}
}
