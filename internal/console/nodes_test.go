package console

import (
	"context"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// TestChangePlurals checks the words for one range and one replica, and for several.
func TestChangePlurals(t *testing.T) {
	one := regexp.MustCompile(`\b1 (ranges|replicas|groups)\b`)
	several := regexp.MustCompile(`\b4 (range|replica|group)\b`)
	for change, c := range changes {
		for _, n := range []int32{1, 4} {
			words := strings.Join(c.will(&quoratev1.NodeStatus{Leads: n, Replicas: n}), " ")
			if one.MatchString(words) || several.MatchString(words) {
				t.Errorf("%s: %s", change, words)
			}
		}
	}
}

// TestUnderReplicatedOnNodes checks that each node has the number of its ranges that lack a voter, and that the
// plan does not call them in place.
func TestUnderReplicatedOnNodes(t *testing.T) {
	f := newFake()
	f.answer["GetStatus"] = func(context.Context, any) (proto.Message, error) {
		return &quoratev1.GetStatusResponse{
			Nodes: []*quoratev1.NodeStatus{{Id: "n1", Connected: true}, {Id: "n2", Connected: true}, {Id: "n3", Connected: true}, {Id: "n4"}},
			Ranges: []*quoratev1.RangeStatus{
				{Id: 0, Leader: "n1", Replicas: []string{"n1", "n2", "n3"}}, {Id: 1, Leader: "n1", Replicas: []string{"n1", "n2", "n4"}}, {Id: 2, Leader: "n1", Replicas: []string{"n1", "n4"}},
			},
		}, nil
	}
	f.answer["GetPlan"] = func(context.Context, any) (proto.Message, error) { return &quoratev1.GetPlanResponse{Total: 4}, nil }
	_, body := get(New(Deps{Conn: f}), "/console/nodes")
	if !strings.Contains(body, "No moves are planned. Under-replicated: 2 ranges.") || strings.Contains(body, "In place") {
		t.Errorf("the plan does not say which voters are down: %s", body)
	}
	for id, want := range map[string]string{"n1": "2 ranges under-replicated", "n2": "1 range under-replicated", "n3": "", "n4": "2 ranges under-replicated"} {
		_, row, _ := strings.Cut(body, `<tr id="node-`+id+`">`)
		row, _, _ = strings.Cut(row, "</tr>")
		if row == "" || !strings.Contains(row, want) || want == "" && strings.Contains(row, "under-replicated") {
			t.Errorf("%s: want %q in\n%s", id, want, row)
		}
	}
}

// TestLinks checks that identities lead to what they did, and voters of the plan to their nodes.
func TestLinks(t *testing.T) {
	f := newFake()
	f.answer["WhoAmI"] = func(context.Context, any) (proto.Message, error) { return &quoratev1.WhoAmIResponse{}, nil }
	f.answer["ListBindings"] = func(context.Context, any) (proto.Message, error) {
		return &quoratev1.ListBindingsResponse{Bindings: []*quoratev1.Binding{{Identity: "user:ann", By: "token:boss"}, {Identity: "group:ops"}, {Identity: "*"}}}, nil
	}
	f.answer["ListTokens"] = func(context.Context, any) (proto.Message, error) {
		return &quoratev1.ListTokensResponse{Tokens: []*quoratev1.BearerToken{{Id: "k1", Name: "ci"}}}, nil
	}
	f.answer["GetPlan"] = func(context.Context, any) (proto.Message, error) {
		return &quoratev1.GetPlanResponse{Total: 2, Groups: []*quoratev1.GroupPlan{{Group: "range 0", Voters: []string{"n1", "n2"}, Wanted: []string{"n3"}}}}, nil
	}
	c := New(Deps{Conn: f})
	for page, wants := range map[string][]string{
		"access": {`<td><a href="/console/audit?who=user%3Aann">user:ann</a></td>`, `<a href="/console/audit?who=token%3Aboss">token:boss</a>`, `<a href="/console/audit?who=token%3Aci">token:ci</a>`, `<td><a href="/console/access?who=group%3Aops">group:ops</a></td>`, "<td>*</td>"},
		"nodes":  {`<td><a href="#node-n1">n1</a>, <a href="#node-n2">n2</a></td><td><a href="#node-n3">n3</a></td>`},
	} {
		_, body := get(c, "/console/"+page)
		for _, want := range wants {
			if !strings.Contains(body, want) {
				t.Errorf("%s: no %s in\n%s", page, want, body)
			}
		}
	}
}

// TestTickedRanges checks that the check boxes of the table of ranges belong to the form that hands ranges
// over, and that it proposes those that are ticked.
func TestTickedRanges(t *testing.T) {
	c := New(Deps{Conn: newFake()})
	_, body := get(c, "/console/nodes")
	for _, want := range []string{`<form class="act" id="transfer" method="post" action="/console/nodes/transfer"`, `<input type="checkbox" form="transfer" name="range" id="range-1" value="1" aria-label="Range 1"> 1</label>`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in\n%s", want, body)
		}
	}
	for want, form := range map[string]url.Values{
		`name="ranges" value="0, 4"`: {"range": {"0", "4"}},
		`name="ranges" value="7"`:    {"range": {"0", "4"}, "ranges": {"7"}},
		`name="ranges" value=""`:     {},
	} {
		if _, body := do(c, post("/console/nodes/transfer", form)); !strings.Contains(body, want) {
			t.Errorf("no %s in\n%s", want, body)
		}
	}
}
