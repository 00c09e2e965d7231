package sim

import (
	"testing"

	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
)

// TestWireSize checks that the counted size is that of the message a node would send, and that a
// key takes less the second time, after the leader has numbered it.
func TestWireSize(t *testing.T) {
	var p packed
	e := quota.ReportEntry{Key: quota.Key{LimitName: quota.LimitName{Namespace: "web", Limit: "per_client"}, Key: "10.1.2.3"}, Epoch: 7, Used: quota.Token}
	r := quota.Report{Range: 3, Term: 1, Seq: 1, Incarnation: 9, Entries: []quota.ReportEntry{e}}
	named := p.report(&r)
	r.Entries[0].Ref = 5
	numbered := p.report(&r)
	if want := int64(len(peerproto.PackReports(nil, []*quota.Report{&r}))); numbered != want || named < numbered+int64(len("web"+"per_client"+"10.1.2.3")) {
		t.Errorf("a report takes %d bytes, and %d when its key is numbered, which are %d", named, numbered, want)
	}
	g := quota.Grant{Range: 3, Term: 1, At: 99, Entries: []quota.GrantEntry{{Key: e.Key, Epoch: 7, Seq: 1, Tokens: quota.Token}}}
	pushed := p.grant(&g)
	g.Entries[0].Line = 1
	if answer, want := p.grant(&g), int64(len(peerproto.PackGrants(nil, []*quota.Grant{&g}))); answer != want || pushed <= answer {
		t.Errorf("a grant takes %d bytes, and %d as an answer, which are %d", pushed, answer, want)
	}
}
