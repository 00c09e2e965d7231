package top

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"google.golang.org/protobuf/types/known/timestamppb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// cluster answers for a cluster with two limits that get 100 attempts a second, of which 60 are
// admitted.
type cluster struct {
	asked []*quoratev1.TopRatesRequest
	n     int64
	err   error
	idle  bool // nothing had demand
	away  bool // one of two nodes does not answer: its counts and its ranges are missing

	enforcement quoratev1.Enforcement // of b/busy
	fraction    float64
}

func (c *cluster) ask(_ context.Context, req *quoratev1.TopRatesRequest) (*quoratev1.GetStatusResponse, *quoratev1.TopRatesResponse, error) {
	c.asked = append(c.asked, req)
	if c.err != nil {
		return nil, nil, c.err
	}
	c.n++
	st := &quoratev1.GetStatusResponse{Ready: true, Cluster: "test", LimitsVersion: 7, Nodes: []*quoratev1.NodeStatus{{Connected: true}, {}}}
	res := &quoratev1.TopRatesResponse{
		RangesCovered: 15, RangesTotal: 16, AsOf: timestamppb.New(time.Unix(1_800_000_000+2*c.n, 0)),
		Limits: []*quoratev1.LimitError{
			{Namespace: "a", Limit: "quiet", Attempted: 5, Admitted: 5, Bound: 3},
			{Namespace: "b", Limit: "busy", Attempted: 200 * c.n, Admitted: 120 * c.n, WorstExcess: 9, Bound: 5, Enforcement: c.enforcement, Fraction: c.fraction},
		},
	}
	if c.away {
		res.RangesCovered = 7
		res.Limits[1].Attempted, res.Limits[1].Admitted = 100*c.n, 60*c.n
	}
	if c.idle {
		res.Limits = nil
	}
	if req.Limit != "" {
		for i := range 100 {
			res.Keys = append(res.Keys, &quoratev1.KeyRate{Namespace: req.Namespace, Limit: req.Limit, Key: fmt.Sprintf("key-%d\x1b[2J", i), Demand: float64(100 - i), Rate: 50, Utilisation: 1.5, Members: 2, Leader: "n1"})
		}
	}
	return st, res, nil
}

// play runs a screen. Each step is a key, or "" for the next answer.
func play(t *testing.T, c *cluster, keys ...string) *model {
	t.Helper()
	m := newModel(c.ask, options{Every: time.Second, Plain: true})
	m.Update(tea.WindowSizeMsg{Width: 100, Height: 14})
	m.Update(m.Init()())
	for _, k := range keys {
		cmd := m.fetch
		if k != "" {
			_, next := m.Update(pressed(k))
			cmd = func() tea.Cmd { return next }
		}
		if run := cmd(); run != nil {
			if msg := run(); msg != nil {
				m.Update(msg)
			}
		}
	}
	return m
}

func pressed(k string) tea.KeyPressMsg {
	named := map[string]rune{
		"enter": tea.KeyEnter, "esc": tea.KeyEscape, "down": tea.KeyDown, "up": tea.KeyUp, "pgdown": tea.KeyPgDown, "end": tea.KeyEnd, "backspace": tea.KeyBackspace,
	}
	if code, there := named[k]; there {
		return tea.KeyPressMsg{Code: code}
	}
	return tea.KeyPressMsg{Code: []rune(k)[0], Text: k}
}

func screen(m *model) string {
	m.still = true // without marks
	defer func() { m.still = false }()
	return m.text()
}

// TestLimits checks that rates are the increases from one answer to the next, highest first, and
// that problems are shown.
func TestLimits(t *testing.T) {
	got := strings.Split(screen(play(t, &cluster{}, "")), "\n")
	for i, want := range []string{"test  degraded  nodes 1 of 2  ranges 15 of 16  limits version 7", "all limits", "DEMAND/s", "b/busy", "a/quiet"} {
		if !strings.Contains(got[i], want) {
			t.Errorf("line %d is %q, want %q in it", i, got[i], want)
		}
	}
	if got := screen(play(t, &cluster{idle: true}, "")); !strings.Contains(got, "\nno traffic\n") {
		t.Errorf("without traffic: %s", got)
	}
	if f := strings.Fields(got[3]); len(f) != 9 || f[1] != "100" || f[2] != "60" || f[3] != "40" || f[8] != "5" {
		t.Errorf("busy: %q", f)
	}
}

// TestNodeComesBack checks that a node's count over its life does not show as a rate once the node
// answers again.
func TestNodeComesBack(t *testing.T) {
	c := &cluster{n: 1000}
	m := play(t, c, "", "")
	for _, silent := range []int{1, 3} {
		for i := range silent + 3 {
			c.away = i < silent
			m.Update(m.fetch()())
			line := strings.Split(screen(m), "\n")[3]
			f := strings.Fields(line)
			if v, err := strconv.ParseFloat(f[1], 64); err != nil || v > 100 || i > silent && v != 100 {
				t.Errorf("silent for %d, answer %d: %q; want at most 100 a second", silent, i, line)
			}
		}
	}
}

// TestShadow checks that what a limit in shadow does not admit does not count as refused: the limit
// is marked, even if its name is cut, and so is the table of its keys.
func TestShadow(t *testing.T) {
	c := &cluster{enforcement: quoratev1.Enforcement_ENFORCEMENT_SHADOW, fraction: 1}
	if got := screen(play(t, c, "")); !strings.Contains(got, "b/busy shadow ") || strings.Contains(got, "quiet shadow") {
		t.Error(got)
	}
	m := play(t, c, "")
	m.width = 60
	if got := screen(m); !strings.Contains(got, " shadow ") {
		t.Error(got)
	}
	if got := screen(play(t, c, "", "enter")); !strings.Contains(got, "keys of b/busy, shadow: refused requests pass") {
		t.Error(got)
	}
	c = &cluster{enforcement: quoratev1.Enforcement_ENFORCEMENT_ENFORCE, fraction: .25}
	if got := screen(play(t, c, "", "enter")); !strings.Contains(got, "keys of b/busy, enforced for 25% of the keys; requests of the others pass") {
		t.Error(got)
	}
}

// TestKeys checks that enter shows the keys of the limit under the cursor in the requested order,
// that a key cannot move the terminal's cursor, and that esc goes back.
func TestKeys(t *testing.T) {
	c := &cluster{}
	m := play(t, c, "", "enter")
	if got := screen(m); !strings.Contains(got, "keys of b/busy") || strings.Contains(got, "\x1b") || !strings.Contains(got, "key-0·[2J") {
		t.Fatal(got)
	}
	play(t, c, "", "enter", ">")
	if last := c.asked[len(c.asked)-1]; last.Limit != "busy" || last.Order != quoratev1.RateOrder_RATE_ORDER_RATE || last.Top != keysAsked {
		t.Fatalf("%+v", last)
	}
	m = play(t, c, "", "enter", "end")
	if got := screen(m); !strings.Contains(got, "key-99") || strings.Contains(got, "key-0·") {
		t.Fatal(got)
	}
	if lines := strings.Count(screen(m), "\n") + 1; lines > 14 {
		t.Fatalf("%d lines on a screen of 14", lines)
	}
	m = play(t, c, "", "enter", "down", "esc")
	if got := screen(m); !strings.Contains(got, "all limits") {
		t.Fatal(got)
	}
}

// TestOrdersTurn checks that < and > cycle through all orders that the cluster knows.
func TestOrdersTurn(t *testing.T) {
	c := &cluster{}
	m := play(t, c, "", "enter")
	seen := map[quoratev1.RateOrder]bool{}
	for range keyColumns {
		seen[m.order] = true
		m.Update(pressed(">"))
	}
	if len(seen) != 7 {
		t.Fatalf("%v", seen)
	}
}

// TestFind checks that a prefix can be typed and edited, and is sent in the request.
func TestFind(t *testing.T) {
	c := &cluster{}
	m := play(t, c, "", "enter", "/", "k", "é", "backspace", "q", "enter")
	if last := c.asked[len(c.asked)-1]; last.KeyPrefix != "kq" {
		t.Fatalf("asked for %q", last.KeyPrefix)
	}
	if got := screen(m); !strings.Contains(got, "that begin with kq") {
		t.Fatal(got)
	}
	if m = play(t, c, "", "/", "b", "enter"); len(m.table().rows) != 1 {
		t.Fatalf("%+v", m.table().rows)
	}
}

// TestStale checks that an answer to an earlier request is not shown, and that a failure is shown
// beside the last data.
func TestStale(t *testing.T) {
	c := &cluster{}
	m := play(t, c, "")
	late := m.fetch()
	msg := late()
	m.Update(pressed("enter"))
	m.Update(msg)
	if m.rates != nil {
		t.Fatal("the answer about all limits is shown as one about keys")
	}
	c.err = errors.New("connection\nrefused")
	m.Update(m.fetch()())
	if got := screen(m); !strings.Contains(got, "no answer: connection refused") || m.err == nil {
		t.Fatal(got)
	}
}

// TestPaused checks that a paused screen sends no requests.
func TestPaused(t *testing.T) {
	c := &cluster{}
	m := play(t, c, "", "p")
	n := len(c.asked)
	if _, cmd := m.Update(tick(m.poll)); cmd != nil || len(c.asked) != n {
		t.Fatal("it asks")
	}
	if _, cmd := m.Update(pressed("p")); cmd == nil {
		t.Fatal("it does not go on")
	}
}

// TestOnce checks that one screen shows the rates of the interval, without marks.
func TestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got, err := newModel((&cluster{}).ask, options{Every: 2 * time.Second}).Once(120, 40)
		if err != nil || strings.Contains(got, "\x1b") || !strings.Contains(got, "b/busy") || strings.Contains(got, "quit") {
			t.Fatalf("%v\n%s", err, got)
		}
	})
	if _, err := newModel((&cluster{err: errors.New("no")}).ask, options{}).Once(80, 24); err == nil {
		t.Fatal("no error")
	}
}

// TestNarrow checks that nothing exceeds the screen, whatever its size.
func TestNarrow(t *testing.T) {
	for _, size := range [][2]int{{1, 1}, {20, 3}, {40, 10}, {300, 100}} {
		m := play(t, &cluster{}, "", "enter", "")
		m.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		lines := strings.Split(screen(m), "\n")
		if len(lines) > size[1] {
			t.Errorf("%v: %d lines", size, len(lines))
		}
		for _, l := range lines {
			if len([]rune(l)) > size[0] {
				t.Errorf("%v: %q", size, l)
			}
		}
	}
}

// TestNumber checks amounts of about five characters.
func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1.5: "1.50", 12.34: "12.3", 9999: "9999", 12345: "12.3k", 1e6: "1M", 4.56e6: "4.56M", -2e9: "-2G", 3e13: "30T"} {
		if got := number(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}

// TestNeedlessColumn checks that a table of keys has a column of needless refusals, between two
// bounds, if there are any.
func TestNeedlessColumn(t *testing.T) {
	key := &quoratev1.KeyRate{Key: "k", Leader: "n1"}
	m := &model{limit: "n/l", order: quoratev1.RateOrder_RATE_ORDER_NEEDLESS_REFUSALS, rates: &quoratev1.TopRatesResponse{Keys: []*quoratev1.KeyRate{key}}}
	if got := m.table(); len(got.columns) != len(keyColumns) || len(got.rows[0].cells) != len(keyColumns) {
		t.Errorf("nothing was refused: %v", got)
	}
	key.NeedlessRefusalsAtMost = 2703
	got := m.table()
	cells := got.rows[0].cells
	if len(got.columns) != len(cells) || got.columns[got.sorted].title != "NEEDLESS" || cells[got.sorted] != "0-"+number(2703) || cells[len(cells)-1] != "n1" {
		t.Errorf("0 to 2703: %v", got)
	}
}
