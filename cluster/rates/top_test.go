package rates

import (
	"testing"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/snapshotio"
)

// TestMergeRates checks that of two leaders' answers about a key the newer one counts, and that the
// requested order holds across all answers.
func TestMergeRates(t *testing.T) {
	answer := func(ranges []uint32, keys ...*quoratev1.KeyRate) *peerv1.CallRatesResult {
		res := &peerv1.CallRatesResult{Ranges: ranges}
		for _, k := range keys {
			res.Keys = append(res.Keys, snapshotio.Encode(k))
		}
		return res
	}
	n := New(Config{Ranges: 4}, nil)
	for order, want := range map[quota.RateOrder]string{quota.ByDemand: "b c ", quota.ByRemaining: "a c ", quota.ByUtilisation: "c a ", quota.ByNeedless: "c a ", 0: "b c "} {
		res := n.mergeRates([]*peerv1.CallRatesResult{
			answer([]uint32{0, 1}, &quoratev1.KeyRate{Key: "a", Demand: 1, Remaining: 2, Utilisation: .5, NeedlessRefusalsAtMost: 1, Term: 3}, &quoratev1.KeyRate{Key: "b", Demand: 99, Remaining: 0, Term: 1}),
			answer([]uint32{1, 2}, &quoratev1.KeyRate{Key: "b", Demand: 9, Remaining: 9, Term: 2}, &quoratev1.KeyRate{Key: "c", Demand: 5, Remaining: 5, Utilisation: .9, NeedlessRefusalsAtMost: 2703, Term: 1}),
		}, &peerv1.CallRates{Order: int32(order), Top: 2})
		got := ""
		for _, k := range res.Keys {
			got += k.Key + " "
			if k.Key == "b" && k.Term != 2 {
				t.Errorf("order %d: b of a leader that was deposed", order)
			}
		}
		if got != want || res.RangesCovered != 3 || res.RangesTotal != 4 || !res.AsOf.IsValid() {
			t.Errorf("order %d: %q (want %q), %d of %d ranges, as of %v", order, got, want, res.RangesCovered, res.RangesTotal, res.AsOf)
		}
	}
}

// TestMergeRatesPages checks that pages follow each other without gap or repetition, and that keys without
// the label are in none, whatever the version of the nodes.
func TestMergeRatesPages(t *testing.T) {
	n := New(Config{Ranges: 1}, nil)
	res := &peerv1.CallRatesResult{Ranges: []uint32{0}}
	for i := range 10 {
		res.Keys = append(res.Keys, snapshotio.Encode(&quoratev1.KeyRate{Key: string(rune('a'+i)) + "/" + []string{"eu", "us"}[i%2], Demand: float64(i / 4)}))
	}
	got := ""
	ask := &peerv1.CallRates{Top: 2, Label: "2=eu"}
	for range 9 {
		page := n.mergeRates([]*peerv1.CallRatesResult{res}, ask).Keys
		if len(page) == 0 {
			break
		}
		for _, k := range page {
			got += k.Key[:1]
		}
		ask.After = snapshotio.Encode(page[len(page)-1])
	}
	if got != "iegac" {
		t.Errorf("pages of 2: %q", got)
	}
}
