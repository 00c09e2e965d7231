package cluster

import (
	"strings"
	"testing"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/health"
)

// TestManyRanges checks that one dead node gives one line, not a row per range.
func TestManyRanges(t *testing.T) {
	st := &quoratev1.GetStatusResponse{Nodes: []*quoratev1.NodeStatus{{Id: "a", Connected: true}, {Id: "b", Connected: true}, {Id: "c"}}}
	for id := range uint32(64) {
		r := &quoratev1.RangeStatus{Id: id, Leader: "a", Replicas: []string{"a", "b", "c"}}
		if id == 20 || id == 40 {
			r.Leader = ""
		}
		st.Ranges = append(st.Ranges, r)
	}
	var b strings.Builder
	if err := render.WritePage(&b, func(p *render.Page) { printRanges(p, st, false) }); err != nil {
		t.Fatal(err)
	}
	const want = "\n62 ranges without c: 0-19, 21-39, 41-63\n2 ranges without a leader: 20, 40\n--ranges prints them one by one\n"
	if b.String() != want {
		t.Errorf("%s\nwant %s", b.String(), want)
	}
	if got := runs([]uint32{0, 2, 4, 6, 8, 10, 12}); got != "0, 2, 4, 6, 8 and 2 more" {
		t.Error(got)
	}
}

// TestVerdictInJSON checks that the output for programs has the same state of the cluster as the
// table, and each node's own report, whichever node answered first.
func TestVerdictInJSON(t *testing.T) {
	status := func() *quoratev1.GetStatusResponse {
		return &quoratev1.GetStatusResponse{Node: "a", Reason: "the node stops", Nodes: []*quoratev1.NodeStatus{
			{Id: "a", Connected: true, Ready: new(bool)}, {Id: "b", Connected: true}, {Id: "c"},
		}}
	}
	list := []health.Readiness{{Node: "a", Reason: "the node stops"}, {Node: "b"}, {Node: "c", Fault: "at c:1: refused"}}
	st := status()
	addVerdict(st, list, health.Of(status(), list...))
	if !st.Ready || st.Reason != "" || st.Health != health.Draining || !strings.HasPrefix(st.HealthText, "node a hands over its leaderships") {
		t.Errorf("%v %q, %s: %s", st.Ready, st.Reason, st.Health, st.HealthText)
	}
	for i, want := range []struct {
		known, ready bool
		reason       string
	}{{true, false, "the node stops"}, {true, true, ""}, {false, false, ""}} {
		if n := st.Nodes[i]; (n.Ready != nil) != want.known || n.GetReady() != want.ready || n.Reason != want.reason {
			t.Errorf("%s: %v", n.Id, n)
		}
	}
	st = status()
	addVerdict(st, list[:1], health.Of(status(), list[:1]...))
	if st.Ready || st.Reason != "the node stops" {
		t.Errorf("nobody is ready, and it says %v %q", st.Ready, st.Reason)
	}
}

// TestToleranceOfAll checks that the status has the lowest tolerance that any node with leaders
// reports.
func TestToleranceOfAll(t *testing.T) {
	for name, c := range map[string]struct {
		first, other *uint32
		leaderless   string // of the other node
		want         uint32
	}{
		"the other leads the smaller range": {new(uint32(1)), new(uint32(0)), "", 0},
		"the first one does":                {new(uint32(0)), new(uint32(1)), "", 0},
		"only the other says it":            {nil, new(uint32(1)), "", 1},
		"only the first says it":            {new(uint32(1)), nil, "", 1},
		"the other is cut off":              {new(uint32(1)), new(uint32(0)), "2 of 2 ranges have no leader", 1},
	} {
		t.Run(name, func(t *testing.T) {
			st := &quoratev1.GetStatusResponse{Node: "a", Tolerates: c.first}
			addOwn(st, &quoratev1.GetStatusResponse{Node: "b", Tolerates: c.other, Leaderless: c.leaderless})
			if st.Tolerates == nil || *st.Tolerates != c.want {
				t.Errorf("%v, want %d", st.Tolerates, c.want)
			}
		})
	}
}
