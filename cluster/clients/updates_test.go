package clients

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/limitproto"
	"github.com/quorate/quorate/internal/quota"
)

// TestOverridesWithoutReasons checks that a client, which may only check, learns what an override does, but
// neither why it was made nor by whom.
func TestOverridesWithoutReasons(t *testing.T) {
	want := quota.Override{Burst: 7, Rate: quota.Rate{Tokens: 3, Per: time.Second}, Scale: quota.Million, Expires: 9}
	want.Key = quota.Key{LimitName: quota.LimitName{Namespace: "web", Limit: "login"}, Key: "k"}
	made := want
	made.Comment, made.By, made.At = "under investigation", "client:alice", 8
	got, err := limitproto.ParseOverride(clientOverride(made.Key, &made).Override)
	if err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if made.Comment == "" {
		t.Error("the node's own override was changed")
	}
}
