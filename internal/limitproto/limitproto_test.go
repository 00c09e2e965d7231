package limitproto

import (
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/filltest"
	"github.com/quorate/quorate/internal/quota"
)

func TestLimit(t *testing.T) {
	want := filltest.Filled[quota.Limit](t)
	got, err := DecodeLimit(filltest.OverWire(t, EncodeLimit(&want), &raftlogv1.StoredLimit{}))
	if err != nil {
		t.Fatal(err)
	}
	if !got.Equal(&want) || !reflect.DeepEqual(got, want) {
		t.Errorf("stored:\n%+v\nbefore:\n%+v", got, want)
	}
}

// TestUnknownWords: what this version does not know is not taken for something else.
func TestUnknownWords(t *testing.T) {
	l, err := DecodeLimit(&raftlogv1.StoredLimit{Namespace: "n", Name: "l", RatePeriodNanos: 1, Kind: 256})
	if err != nil || l.Validate() == nil {
		t.Errorf("a kind of a later version is taken for %v, %v", l.Kind, err)
	}
	if _, err := DecodeLimit(&raftlogv1.StoredLimit{Zone: "Mars/Olympus"}); err == nil {
		t.Error("an unknown zone was taken")
	}
}

func TestOverride(t *testing.T) {
	want := quota.Override{
		Key:   quota.Key{LimitName: quota.LimitName{Namespace: "web", Limit: "login"}, Key: "alice\x00\xff"},
		Class: quota.Unlimited, Burst: 7, Rate: quota.Rate{Tokens: 3, Per: 5}, Scale: 2, Expires: 9, Comment: "until Friday", By: "ops", At: 4,
	}
	got, err := ParseOverride(filltest.OverWire(t, EncodeOverride(&want), &raftlogv1.StoredOverride{}))
	if err != nil || got != want {
		t.Errorf("after the wire, %v:\n%+v\nbefore:\n%+v", err, got, want)
	}
	want.Burst = -1 // the limit's, which is not 0
	if got, err = ParseOverride(EncodeOverride(&want)); err != nil || got != want {
		t.Errorf("without a burst, %v: %+v", err, got)
	}
	for field, bend := range map[string]func(*quota.Override){
		"key": func(o *quota.Override) { o.Key.Key = "" }, "class": func(o *quota.Override) { o.Class = 9 },
		"expires": func(o *quota.Override) { o.Expires = -1 }, "by": func(o *quota.Override) { o.By = "\xff" },
		"comment": func(o *quota.Override) { o.Comment = strings.Repeat("x", quota.MaxCommentLen+1) },
	} {
		bad := want
		bend(&bad)
		if _, err := ParseOverride(EncodeOverride(&bad)); err == nil || !strings.Contains(err.Error(), field+":") {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := ParseOverride(nil); err == nil {
		t.Error("no override was taken for one")
	}
}

func TestDecodeLimits(t *testing.T) {
	list := []quota.Limit{
		{LimitName: quota.LimitName{Namespace: "web", Limit: "b"}, Rate: quota.Rate{Tokens: 1, Per: 1e9}, Burst: 2},
		{LimitName: quota.LimitName{Namespace: "web", Limit: "a"}, Rate: quota.Rate{Tokens: 1, Per: 1e9}, Burst: 2, Parent: "b"},
	}
	got, err := DecodeLimits(7, EncodeLimits(list))
	if err != nil || got.Version != 7 || len(got.All()) != 2 || !got.All()[0].Equal(&list[1]) {
		t.Errorf("got %+v, %v", got.All(), err)
	}
	for what, s := range map[string][]*raftlogv1.StoredLimit{
		"defined twice": EncodeLimits([]quota.Limit{list[0], list[0]}),
		"parent":        EncodeLimits(list[1:]),
		"time zone":     {{Namespace: "web", Name: "a", Zone: "Mars/Olympus"}},
		"at most 10000": make([]*raftlogv1.StoredLimit, quota.MaxLimits+1),
	} {
		if _, err := DecodeLimits(1, s); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// FuzzDecode: whatever comes, nothing panics, and what is valid is the same after
// another way.
func FuzzDecode(f *testing.F) {
	l := quota.Limit{LimitName: quota.LimitName{Namespace: "web", Limit: "a"}, Rate: quota.Rate{Tokens: 1, Per: 1e9}, Burst: 2}
	good, _ := proto.Marshal(EncodeLimit(&l))
	f.Add(good)
	o, _ := proto.Marshal(EncodeOverride(&quota.Override{Key: quota.Key{LimitName: l.LimitName, Key: "k"}, Burst: 5}))
	f.Add(o)
	f.Fuzz(func(t *testing.T, data []byte) {
		var s raftlogv1.StoredLimit
		if proto.Unmarshal(data, &s) == nil {
			if set, err := DecodeLimits(1, []*raftlogv1.StoredLimit{&s}); err == nil {
				again, err := DecodeLimits(1, EncodeLimits(set.All()))
				if err != nil || !again.All()[0].Equal(&set.All()[0]) {
					t.Fatalf("%+v\nagain, %v:\n%+v", set.All(), err, again.All())
				}
			}
		}
		var so raftlogv1.StoredOverride
		if proto.Unmarshal(data, &so) == nil {
			if o, err := ParseOverride(&so); err == nil {
				if again, err := ParseOverride(EncodeOverride(&o)); err != nil || again.Key != o.Key || again.Scale != o.Scale || again.Burst != o.Burst && (again.Burst >= 0 || o.Burst >= 0) {
					t.Fatalf("%+v\nagain, %v:\n%+v", o, err, again)
				}
			}
		}
	})
}
