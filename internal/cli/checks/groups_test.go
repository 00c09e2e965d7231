package checks

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/cli/render"
)

// TestRatesUnrefused checks that the output for groups names the limits that did not refuse
// everything that they did not admit.
func TestRatesUnrefused(t *testing.T) {
	res := &quoratev1.TopRatesResponse{
		Groups: []*quoratev1.RateGroup{{Value: "eu", Keys: 1, Refused: 9}},
		Limits: []*quoratev1.LimitError{
			{Namespace: "web", Limit: "a", Enforcement: quoratev1.Enforcement_ENFORCEMENT_SHADOW, Fraction: 1},
			{Namespace: "web", Limit: "b", Fraction: 1},
			{Namespace: "web", Limit: "c", Enforcement: quoratev1.Enforcement_ENFORCEMENT_ENFORCE, Fraction: .25},
		},
	}
	var b strings.Builder
	print := func(format string, w io.Writer, res *quoratev1.TopRatesResponse) error {
		return render.NewPrinter(format, false, w).Print(nil, func(p *render.Page) { printGroups(p, res) })
	}
	if err := print(render.FormatTable, &b, res); err != nil {
		t.Fatal(err)
	}
	if want := "REFUSED includes requests that passed, because these limits are not enforced, or not for all keys: web/a shadow, web/c enforced for 25%\n"; !strings.HasSuffix(b.String(), want) {
		t.Errorf("it says\n%s\nwant at its end\n%s", &b, want)
	}
	b.Reset()
	res.Limits = res.Limits[1:2]
	if err := print(render.FormatTable, &b, res); err != nil || strings.Contains(b.String(), "passed") {
		t.Errorf("%v: %s", err, &b)
	}
}

// TestGroupsTable checks the table of groups for people and as CSV.
func TestGroupsTable(t *testing.T) {
	groups := &quoratev1.TopRatesResponse{Groups: []*quoratev1.RateGroup{{Value: "eu", Keys: 2, Rate: 9, Demand: 12.25, Attempted: 100, Admitted: 90, Refused: 10, Utilisation: .5, Remaining: 3}, {Keys: 1}}, KeysGrouped: 1000, GroupsPartial: true}
	var table, csv bytes.Buffer
	page := func(p *render.Page) { printGroups(p, groups) }
	if err := errors.Join(render.WritePage(&table, page), render.NewPrinter(render.FormatCSV, false, &csv).Print(nil, page)); err != nil {
		t.Fatal(err)
	}
	const want = "group,keys,rate,demand,load,attempted,admitted,refused,needless,needless_at_most,remaining\neu,2,9,12.25,0.5,100,90,10,0,0,3\n,1,0,0,0,0,0,0,0,0,0\n"
	if csv.String() != want {
		t.Errorf("CSV:\n%s\nwant:\n%s", csv.String(), want)
	}
	const wantTable = `GROUP  KEYS  RATE  DEMAND  LOAD  ATTEMPTED  ADMITTED  REFUSED  REMAINING
eu        2   9.0    12.2   50%        100        90       10          3
-         1   0.0     0.0    0%          0         0        0          0
of the first 1000 keys; further keys are in no group
`
	if table.String() != wantTable {
		t.Errorf("table:\n%s\nwant:\n%s", table.String(), wantTable)
	}
}
