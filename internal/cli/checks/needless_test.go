package checks

import (
	"bytes"
	"strings"
	"testing"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/cli/render"
)

// TestNeedlessColumn checks that tables of keys and groups show needless refusals between two
// bounds, and omit the column if there are none, while CSV always has both bounds.
func TestNeedlessColumn(t *testing.T) {
	for name, tt := range map[string]struct {
		least, most float64
		want        string // empty: no column
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
			for table, page := range map[string]func(*render.Page){
				"rates":  func(p *render.Page) { printRates(p, res) },
				"groups": func(p *render.Page) { printGroups(p, res) },
				"key":    func(p *render.Page) { printKey(p, key) },
			} {
				var b bytes.Buffer
				if err := render.WritePage(&b, page); err != nil {
					t.Fatal(err)
				}
				if has := strings.Contains(b.String(), "NEEDLESS"); has != (tt.want != "") || !strings.Contains(b.String(), tt.want) {
					t.Errorf("%s: want %q:\n%s", table, tt.want, b.String())
				}
			}
			var b bytes.Buffer
			if err := render.NewPrinter(render.FormatCSV, false, &b).Print(nil, func(p *render.Page) { printGroups(p, res) }); err != nil {
				t.Fatal(err)
			}
			if got := b.String(); !strings.Contains(got, ",refused,needless,needless_at_most,") || !strings.HasSuffix(got, ",0,"+tt.csv+",0\n") {
				t.Errorf("CSV: %q; want %q", got, tt.csv)
			}
		})
	}
}
