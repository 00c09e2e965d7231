package leader

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestNeedlessOfKey: Rates returns the bounds of a key's needless refusals, as the live error of
// its limit does. A refusal that was reported late may have been needless or not.
func TestNeedlessOfKey(t *testing.T) {
	l := quota.Limit{LimitName: quota.LimitName{Namespace: "web", Limit: "l"}, Rate: quota.Rate{Tokens: 10, Per: time.Second}, Burst: 20}
	limits, err := quota.NewLimits(1, []quota.Limit{l})
	if err != nil {
		t.Fatal(err)
	}
	now, token := quota.Time(time.Hour), quota.Token
	g := New(Config{}, 0, 1, "a", []quota.NodeID{"a"}, limits, nil, now)
	k := quota.Key{LimitName: l.LimitName, Key: "k"}
	for seq := range 30 {
		e := quota.ReportEntry{Key: k, Epoch: 1, Refused: quota.Units(seq) * 5 * token, Want: token}
		if _, err := g.Report(now, quota.Report{Term: 1, From: "a", Incarnation: 1, Seq: quota.Seq(seq + 1), Entries: []quota.ReportEntry{e}}); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Second)
	}
	var e quota.LiveError
	g.LiveErrors(func(_ quota.LimitName, of *quota.LiveError) { e = *of })
	r, ok := g.Key(now, k)
	if !ok || e.NeedlessAtMost == 0 || e.NeedlessAtMost <= e.Needless {
		t.Fatalf("nothing to tell: %+v", e)
	}
	if r.Needless != e.Needless || r.NeedlessAtMost != e.NeedlessAtMost {
		t.Errorf("the key was refused %v to %v without need; its limit, which has no other key, %v to %v", r.Needless, r.NeedlessAtMost, e.Needless, e.NeedlessAtMost)
	}
}
