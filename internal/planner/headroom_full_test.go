package planner

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/api/apitest"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

// TestHeadroomNeverRefusesHalfEmpty checks random limits and histories, decided by real meters: a limit that
// refused more than 1% is never reported as less than full, and a limit that refused nothing is never
// reported as full.
func TestHeadroomNeverRefusesHalfEmpty(t *testing.T) {
	refused, above := 0, 0
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 37))
		p := apitest.NewPast(t)
		l := randomShape(rng)
		set, err := quota.NewLimits(1, []quota.Limit{l})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		p.Active = set
		span := []history.Second{600, 6 * 3600, 7 * 86400}[rng.IntN(3)]
		playShape(rng, p, &l, span)
		res, err := newPlannerOf(p).Headroom(t.Context(), &quoratev1.HeadroomRequest{From: ago(time.Duration(span) * time.Second)})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, h := range res.Limits {
			line := fmt.Sprintf("seed %d: %+v over %d s: %.0f%% full, refused %.1f%%: %s", seed, l.Tiers(), span, 100*h.Saturation, 100*h.RefusedPart, h.Statement)
			if h.RefusedPart > .01 {
				refused++
				if h.Saturation < 1 || h.Headroom > 0 {
					t.Error(line)
				}
				if !strings.Contains(h.Statement, "full at times") {
					above++
				}
			}
			if h.RefusedPart == 0 && strings.Contains(h.Statement, "full at times") {
				t.Error(line)
			}
		}
	}
	if refused < 100 || above < refused/4 {
		t.Errorf("%d of 400 refused, %d of them with a measure above full: the test looks at too little", refused, above)
	}
}

// randomShape returns a limit of one or two tiers: a bucket, a window of a second to a day, or a concurrency limit.
func randomShape(rng *rand.Rand) quota.Limit {
	tier := func() quota.Tier {
		burst := 1 + rng.Int64N(200)
		per := []time.Duration{time.Second, 10 * time.Second, time.Minute, time.Hour, 24 * time.Hour}[rng.IntN(5)]
		switch rng.IntN(7) {
		case 0, 1:
			return quota.Window(quota.FixedWindow, burst, per)
		case 2:
			return quota.Window(quota.SlidingWindow, burst, per)
		}
		return quota.Tier{Rate: quota.Rate{Tokens: 1 + rng.Int64N(burst), Per: per}, Burst: burst}
	}
	l := quota.Limit{LimitName: quota.LimitName{Namespace: "web", Limit: "any"}}
	first := tier()
	if rng.IntN(15) == 0 {
		first = quota.Tier{Kind: quota.Concurrency, Burst: first.Burst}
	}
	l.SetFirst(first)
	if first.Kind != quota.Concurrency && rng.IntN(3) == 0 {
		l.More = []quota.Tier{tier()}
	}
	if rng.IntN(6) == 0 {
		l.Enforcement = quota.Shadow
	}
	return l
}

// playShape plays requests of one or more tokens for some keys: evenly, in clumps, or only on some days.
func playShape(rng *rand.Rand, p *apitest.Past, l *quota.Limit, span history.Second) {
	tiers := l.Tiers()
	keys, clump := 1+rng.IntN(2)*rng.IntN(20), 1+rng.IntN(60)
	seconds := 20 + rng.IntN(300)
	largest := []int64{1, 1, 5, 2 * l.Burst}[rng.IntN(4)]
	meters := make([][]limiter.Meter, keys)
	inFlight := make([]int64, keys)
	start := history.Second(apitest.Noon.Unix()) - span
	for i := range meters {
		for j := range tiers {
			meters[i] = append(meters[i], limiter.NewMeter(&tiers[j], second(start)))
		}
	}
	at := make([]history.Second, 0, seconds)
	for len(at) < seconds {
		s := start + history.Second(rng.Int64N(int64(span)))
		for range clump {
			if s < start+span {
				at = append(at, s)
			}
			s += history.Second(rng.IntN(2))
		}
	}
	slices.Sort(at)
	for i := 0; i < len(at); {
		j := i
		for ; j < len(at) && at[j] == at[i]; j++ {
			k := rng.IntN(keys)
			tried, passed := int64(0), int64(0)
			for range 1 + rng.IntN(8) {
				cost := 1 + rng.Int64N(largest)
				tried += cost
				if passShape(meters[k], tiers, &inFlight[k], second(at[i]), cost) {
					passed += cost
				}
			}
			p.All = append(p.All, apitest.Asked{At: at[i], Limit: l.LimitName, Key: fmt.Sprint("k", k), Attempted: tried, Admitted: passed})
		}
		i = j
	}
}

func second(s history.Second) quota.Time { return quota.Time(s) * quota.Time(time.Second) }

// passShape charges a request to all tiers of a key if all have room.
func passShape(meters []limiter.Meter, tiers []quota.Tier, inFlight *int64, now quota.Time, cost int64) bool {
	if tiers[0].Kind == quota.Concurrency {
		if *inFlight+cost > tiers[0].Burst {
			*inFlight /= 2 // half of the other requests end
			return false
		}
		*inFlight += cost
		return true
	}
	u := quota.FromTokens(cost)
	for i := range meters {
		if meters[i].Advance(now, &tiers[i]); meters[i].Level() < u {
			return false
		}
	}
	for i := range meters {
		meters[i].Add(-u)
	}
	return true
}
