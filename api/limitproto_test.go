package api

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/quorate/quorate/api/apijson"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/quota"
)

// TestWordsAreTheSame checks that each proto enum has the words of limit files, in the same order.
func TestWordsAreTheSame(t *testing.T) {
	same := func(d protoreflect.EnumDescriptor, first int, words ...fmt.Stringer) {
		if d.Values().Len() != len(words)+first {
			t.Errorf("%s has %d values, want %d", d.Name(), d.Values().Len(), len(words)+first)
		}
		for i, w := range words {
			if got := apijson.Word(d, protoreflect.EnumNumber(i+first)); got != w.String() {
				t.Errorf("%s %d is %s, want %v", d.Name(), i+first, got, w)
			}
		}
	}
	same(quoratev1.Kind(0).Descriptor(), 1, stringers(quota.Kinds())...)
	same(quoratev1.Enforcement(0).Descriptor(), 1, stringers(quota.Enforcements())...)
	same(quoratev1.Decide(0).Descriptor(), 1, stringers(quota.Decides())...)
	same(quoratev1.Class(0).Descriptor(), 1, quota.Counted, quota.Unlimited, quota.Banned)
	same(quoratev1.Ceiling(0).Descriptor(), 1, quota.Soft, quota.Hard)
	same(quoratev1.CutOffPolicy(0).Descriptor(), 1, stringers(append(quota.CutOffPolicies(), quota.CutOffRate))...)
	same(quoratev1.EventKind(0).Descriptor(), 1, stringers(quota.EventKinds())...)
	same(quoratev1.Why(0).Descriptor(), 1, stringers(quota.Whys())...)
}

func stringers[T fmt.Stringer](list []T) (out []fmt.Stringer) {
	for _, v := range list {
		out = append(out, v)
	}
	return out
}

// TestLimitProtoShowsEveryField checks that a change of any field of a limit shows in its proto.
func TestLimitProtoShowsEveryField(t *testing.T) {
	base := quota.Limit{LimitName: quota.LimitName{Namespace: "web", Limit: "a"}, Kind: quota.CalendarWindow, Rate: quota.Rate{Tokens: 1, Per: time.Minute}, Burst: 1, Calendar: quota.Calendar{Unit: quota.Minute}}
	before := apiproto.Limit(&base)
	changes := map[string]any{
		"LimitName": quota.LimitName{Namespace: "web", Limit: "b"}, "Kind": quota.FixedWindow, "Rate": quota.Rate{Tokens: 2, Per: time.Minute},
		"Burst": int64(2), "Calendar": quota.Calendar{Unit: quota.Day}, "More": []quota.Tier{{Burst: 3}}, "Class": quota.Banned, "Ceiling": quota.Hard,
		"Decide": quota.AtLeader, "MaxCost": int64(1), "MaxWait": time.Second, "MaxDebt": time.Second, "Lease": time.Second, "Parent": "p",
		"Floor": quota.Rate{Tokens: 1, Per: time.Second}, "FloorBurst": int64(1), "Enforcement": quota.Shadow, "Fraction": int64(1), "Near": int64(1),
		"CutOff": quota.CutOff{Policy: quota.CutOffRate, Rate: quota.Rate{Tokens: 1, Per: time.Second}}, "MaxKeys": int64(1), "Idle": time.Second,
		"Durable": true, "Match": &quota.Match{Methods: []string{"GET"}, Path: "/x"},
	}
	for i := range reflect.TypeFor[quota.Limit]().NumField() {
		name := reflect.TypeFor[quota.Limit]().Field(i).Name
		value, ok := changes[name]
		if !ok {
			t.Errorf("%s is new: show it in LimitProto, and change it here", name)
			continue
		}
		l := base
		reflect.ValueOf(&l).Elem().Field(i).Set(reflect.ValueOf(value))
		if after := apiproto.Limit(&l); proto.Equal(before, after) {
			t.Errorf("%s cannot be seen in %v", name, after)
		}
	}
	then := quota.CutOff{Policy: quota.CutOffHold, After: time.Minute, Then: quota.CutOffRate, ThenRate: quota.Rate{Tokens: 3, Per: time.Second}}
	if got := apiproto.CutOffProto(then); got.ThenRate != "3/s" || got.Rate != "" || got.After.AsDuration() != time.Minute || apijson.Word(got.Then.Descriptor(), got.Then.Number()) != "rate" {
		t.Errorf("%v", got)
	}
	if got := apiproto.Limit(&quota.Limit{LimitName: quota.LimitName{Namespace: "web", Limit: "a#2"}}); got.Name != "a" {
		t.Errorf("a tier is shown as %s, want the name of its limit", got.Name)
	}
}

// TestTiersOfOneLimit checks that the headers describe the tier that decided.
func TestTiersOfOneLimit(t *testing.T) {
	l := quota.Limit{LimitName: quota.LimitName{Namespace: "web", Limit: "a"}, More: []quota.Tier{quota.Window(quota.FixedWindow, 50, 10*time.Second)}}
	l.SetFirst(quota.Window(quota.FixedWindow, 10, time.Second))
	r := Prepare(&l, nil)
	for tier, want := range map[int]string{0: `"a";q=10;w=1`, 1: `"a";q=10;w=1`, 2: `"a";q=50;w=10`, 3: `"a";q=10;w=1`} {
		if got := r.Decided(&quota.Decision{Limit: &l, Tier: tier}).Policy[0]; got != want {
			t.Errorf("tier %d: %s, want %s", tier, got, want)
		}
	}
	if len(r.PB.Tiers) != 2 || r.PB.Tiers[1].Burst != 50 {
		t.Errorf("%v", r.PB.Tiers)
	}
}

// TestLimitProtoWithoutRate checks that a limit without a rate has none in its proto, and that 0/0s
// means no rate.
func TestLimitProtoWithoutRate(t *testing.T) {
	for _, l := range []quota.Limit{{Class: quota.Unlimited}, {Class: quota.Banned}, {Kind: quota.Concurrency, Burst: 3}} {
		if got := apiproto.Limit(&l).Rate; got != "" {
			t.Errorf("%v %v: the rate is %q", l.Class, l.Kind, got)
		}
	}
}
