package sim

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/quota"
)

// TestWireSize compares what is counted with what protobuf makes of the same
// report and grant, with small numbers and large ones, and with none.
func TestWireSize(t *testing.T) {
	for _, u := range []int64{0, 1, 127, 128, 1_000_000, 123_456_789_012, -5} {
		n := uint64(max(u, 0))
		k := quota.Key{LimitName: quota.LimitName{Namespace: "web", Limit: "per_client"}, Key: "10.1.2.3"}
		r := quota.Report{Range: 3, Term: quota.Term(n), Seq: quota.Seq(n), Incarnation: quota.Incarnation(n), Full: u > 1, Entries: []quota.ReportEntry{{
			Key: k, Epoch: quota.Seq(n), Used: quota.Units(u), Overdrawn: quota.Units(u), Refused: quota.Units(u), Refunded: quota.Units(u),
			InFlight: quota.Units(u), Held: quota.Units(u), AccruedTo: quota.Time(u), Applied: quota.Seq(n), Want: quota.Units(u),
			Unreported: quota.Units(u), Final: u > 1, Window: quota.Time(u), Before: quota.Units(u),
			Learn: &quota.Learn{
				Told: u > 1, Level: quota.Units(u), Age: time.Duration(u), Rate: quota.Units(u), Cap: quota.Units(u),
				LeaseLeft: time.Duration(u), WindowEnd: quota.Time(u),
			},
		}}}
		pr := &peerv1.Report{Range: 3, Term: n, Seq: n, Incarnation: n, Full: u > 1, Entries: []*peerv1.ReportEntry{{
			Namespace: k.Namespace, Limit: k.Limit, Key: k.Key, Epoch: n, Used: u, Overdrawn: u, Refused: u, Refunded: u, InFlight: u, Held: u,
			AccruedTo: u, Applied: n, Want: u, Unreported: u, Final: u > 1, Window: u, Before: u,
			Learn: &peerv1.Learn{Told: u > 1, Level: u, AgeNanos: u, Rate: u, Cap: u, LeaseLeftNanos: u, WindowEnd: u},
		}}}
		if got, want := reportSize(&r), int64(proto.Size(pr)); got != want {
			t.Errorf("%d: a report takes %d bytes, counted as %d", u, want, got)
		}
		g := quota.Grant{Range: 3, Term: quota.Term(n), At: quota.Time(u), Entries: []quota.GrantEntry{{
			Key: k, Epoch: quota.Seq(n), Seq: quota.Seq(n), Ack: quota.Seq(n), Tokens: quota.Units(u), Rate: quota.Units(u), Cap: quota.Units(u),
			Lease: time.Duration(u), Level: quota.Units(u), Free: quota.Units(u), Others: quota.Units(u), Again: time.Duration(u),
			WindowStart: quota.Time(u), WindowEnd: quota.Time(u), Slope: quota.Units(u), Closed: u > 1,
		}}}
		pg := &peerv1.Grant{Range: 3, Term: n, At: u, Entries: []*peerv1.GrantEntry{{
			Namespace: k.Namespace, Limit: k.Limit, Key: k.Key, Epoch: n, Seq: n, Ack: n, Tokens: u, Rate: u, Cap: u, LeaseNanos: u, Level: u,
			Free: u, Others: u, AgainNanos: u, WindowStart: u, WindowEnd: u, Slope: u, Closed: u > 1,
		}}}
		if got, want := grantSize(&g), int64(proto.Size(pg)); got != want {
			t.Errorf("%d: a grant takes %d bytes, counted as %d", u, want, got)
		}
	}
}
