package top

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// column is a column of a table: its title, and the cluster's order for it.
type column struct {
	title string
	order quoratev1.RateOrder
}

var limitColumns = []column{
	{title: "LIMIT"},
	{title: "DEMAND/s"},
	{title: "ADMITTED/s"},
	{title: "REFUSED/s"},
	{title: "REFUSED"},
	{title: "OVER"},
	{title: "NEEDLESS"},
	{title: "WORST"},
	{title: "BOUND"},
}

var keyColumns = []column{
	{title: "KEY"},
	{"DEMAND/s", quoratev1.RateOrder_RATE_ORDER_DEMAND},
	{"ADMITTED/s", quoratev1.RateOrder_RATE_ORDER_RATE},
	{"REFUSED/s", quoratev1.RateOrder_RATE_ORDER_REFUSAL_RATE},
	{"LOAD", quoratev1.RateOrder_RATE_ORDER_UTILISATION},
	{"LEFT", quoratev1.RateOrder_RATE_ORDER_REMAINING},
	{"REFUSED", quoratev1.RateOrder_RATE_ORDER_REFUSED},
	{"OVER", quoratev1.RateOrder_RATE_ORDER_OVER_ADMITTED},
	{"NODES", 0},
	{"LEADER", 0},
}

type row struct {
	name  string
	mark  string // after the first cell, even if that is cut
	cells []string
	sort  []float64 // of limits: by column; the first is unused
	alarm bool      // refuses, or exceeds its bound
}

type table struct {
	columns []column
	sorted  int // index of the sorted column
	rows    []row
}

// table returns the table on the screen.
func (m *model) table() table {
	if m.limit == "" {
		return m.limits()
	}
	t := table{columns: keyColumns, sorted: orderColumn(m.order)}
	keys := m.rates.GetKeys()
	for _, k := range keys {
		t.rows = append(t.rows, keyRow(k))
	}
	if slices.ContainsFunc(keys, func(k *quoratev1.KeyRate) bool { return max(k.NeedlessRefusals, k.NeedlessRefusalsAtMost) > 0 }) {
		t.columns = slices.Insert(slices.Clone(t.columns), keyNeedlessColumn, column{"NEEDLESS", quoratev1.RateOrder_RATE_ORDER_NEEDLESS_REFUSALS})
		for i, k := range keys {
			t.rows[i].cells = slices.Insert(t.rows[i].cells, keyNeedlessColumn, needlessCell(k.NeedlessRefusals, k.NeedlessRefusalsAtMost))
		}
		if m.order == quoratev1.RateOrder_RATE_ORDER_NEEDLESS_REFUSALS {
			t.sorted = keyNeedlessColumn
		}
	}
	return t
}

// keyNeedlessColumn is the index of the column with needless refusals in a table of keys, if there
// are any.
const keyNeedlessColumn = 8

// needlessCell formats needless refusals: one figure, or two bounds.
func needlessCell(least, most float64) string {
	if most <= least {
		return number(least)
	}
	return number(least) + "-" + number(most)
}

func keyRow(k *quoratev1.KeyRate) row {
	refused := max(0, k.Demand-k.Rate)
	return row{
		name: k.Key,
		cells: []string{
			k.Key, number(k.Demand), number(k.Rate), number(refused), strconv.Itoa(int(100*k.Utilisation+0.5)) + "%",
			number(float64(k.Remaining)), number(float64(k.Refused)), number(k.OverAdmitted), strconv.Itoa(int(k.Members)), k.Leader,
		},
		alarm: k.Utilisation >= 1,
	}
}

// limits returns the table of limits, with their rates since the previous answer.
func (m *model) limits() table {
	t := table{columns: limitColumns, sorted: m.column}
	before := map[string]*quoratev1.LimitError{}
	for _, l := range m.before.GetLimits() {
		before[l.Namespace+"/"+l.Limit] = l
	}
	dt := m.rates.GetAsOf().AsTime().Sub(m.before.GetAsOf().AsTime())
	for _, l := range m.rates.GetLimits() {
		if name := l.Namespace + "/" + l.Limit; strings.HasPrefix(name, m.prefix) {
			t.rows = append(t.rows, limitRow(name, l, before[name], dt))
		}
	}
	slices.SortStableFunc(t.rows, func(a, b row) int {
		if m.column == 0 {
			return cmp.Compare(a.name, b.name)
		}
		return cmp.Or(cmp.Compare(b.sort[m.column], a.sort[m.column]), cmp.Compare(a.name, b.name))
	})
	return t
}

// needlessColumn is the index of the column with needless refusals in the table of limits. The
// column shows a range, because a leader does not see every moment.
const needlessColumn = 6

func limitRow(name string, l, before *quoratev1.LimitError, dt time.Duration) row {
	perSecond := func(now, then int64) float64 {
		if before == nil || dt <= 0 {
			return 0
		}
		return max(0, float64(now-then)/dt.Seconds())
	}
	demand, admitted := perSecond(l.Attempted, before.GetAttempted()), perSecond(l.Admitted, before.GetAdmitted())
	v := []float64{0, demand, admitted, max(0, demand-admitted), float64(l.Attempted - l.Admitted), l.OverAdmitted, l.NeedlessRefusals, l.WorstExcess, l.Bound}
	r := row{name: name, mark: mark(l.Enforcement, l.Fraction), cells: []string{name}, sort: v, alarm: l.WorstExcess > l.Bound}
	for _, x := range v[1:] {
		r.cells = append(r.cells, number(x))
	}
	r.cells[needlessColumn] = needlessCell(l.NeedlessRefusals, l.NeedlessRefusalsAtMost)
	return r
}

// mark marks a limit that does not refuse everything that it does not admit.
func mark(e quoratev1.Enforcement, fraction float64) string {
	switch {
	case e == quoratev1.Enforcement_ENFORCEMENT_SHADOW:
		return " shadow"
	case e == quoratev1.Enforcement_ENFORCEMENT_OFF:
		return " off"
	case fraction > 0 && fraction < 1:
		return " " + strconv.FormatFloat(100*fraction, 'g', 4, 64) + "%"
	}
	return ""
}

// number formats an amount in about five characters: 1234, 12.3k, 4.56M.
func number(v float64) string {
	if v < 10_000 && v > -10_000 {
		return scaled(v, "")
	}
	for _, unit := range []string{"k", "M", "G"} {
		if v /= 1000; v < 1000 && v > -1000 {
			return scaled(v, unit)
		}
	}
	return scaled(v/1000, "T")
}

// scaled formats three digits, or whole numbers.
func scaled(v float64, unit string) string {
	switch a := max(v, -v); {
	case a >= 100 || v == float64(int64(v)):
		return strconv.FormatFloat(v, 'f', 0, 64) + unit
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64) + unit
	}
	return strconv.FormatFloat(v, 'f', 2, 64) + unit
}
