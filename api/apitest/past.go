package apitest

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/quota"
)

// Noon is the current time in tests of history.
var Noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// Asked is the number of tokens of a key that were requested and admitted in one second.
type Asked struct {
	At                  history.Second
	Limit               quota.LimitName
	Key                 string
	Attempted, Admitted int64
}

// Past is a Node with a history of seconds, which tests add with Ask.
type Past struct {
	*Node
	All      []Asked
	AsOf     history.Second
	Begins   history.Second                  // start of the known history
	Missing  map[history.Second]quota.NodeID // node whose data are missing, by start of the minute
	Covered  int                             // number of the 4 ranges that answered
	Unlisted history.Second                  // minute without a list of keys; queries that include the next minute report the gap
	Err      error
	calls    int
	Lists    int  // number of HistoryKeys calls
	Admits   bool // Ask admits every token; if false, at most ten per second and key
}

// NewPast returns a node with an empty history.
func NewPast(t testing.TB) *Past {
	return &Past{Node: New(t), AsOf: history.Second(Noon.Unix()), Covered: 4, Missing: map[history.Second]quota.NodeID{}}
}

// Ask adds consecutive seconds to the history of a key. The first one starts ago before Noon,
// and tokens are the tokens requested in each second.
func (p *Past) Ask(name, key string, ago time.Duration, tokens ...int64) {
	limit, _ := quota.ParseLimitName(name)
	for i, n := range tokens {
		admitted := n
		if !p.Admits {
			admitted = min(n, 10)
		}
		p.All = append(p.All, Asked{history.Second(Noon.Add(-ago).Unix() + int64(i)), limit, key, n, admitted})
	}
}

func (p *Past) point(limit quota.LimitName, from, end history.Second) history.Point {
	out := history.Point{Start: from, Seconds: int(end - from), Complete: true}
	demand := make([]quota.Units, max(1, end-from))
	for _, a := range p.All {
		if a.Limit == limit && a.At >= from && a.At < end {
			out.Add(&history.Counts{Attempted: quota.FromTokens(a.Attempted), Admitted: quota.FromTokens(a.Admitted)})
			demand[a.At-from] += quota.FromTokens(a.Attempted)
		}
	}
	for m := from - from%60; m < end; m += 60 {
		if who, ok := p.Missing[m]; ok {
			out.Complete, out.Missing = false, []history.Process{{Node: who}}
		}
	}
	slices.Sort(demand)
	at := func(percent int) quota.Units { return demand[(len(demand)*percent+99)/100-1] }
	out.P50, out.P95, out.P99, out.Peak, out.Mean = at(50), at(95), at(99), demand[len(demand)-1], out.Attempted/quota.Units(len(demand))
	return out
}

// History implements api.Node.
func (p *Past) History(_ context.Context, q history.Query) (history.Answer, error) {
	p.calls++
	out := history.Answer{AsOf: p.AsOf, RangesCovered: 1, RangesTotal: 1}
	step := history.Second(q.Step)
	for s := q.From - q.From%step; s < min(q.End, p.AsOf); s += step {
		if s+step <= p.Begins {
			continue
		}
		out.Points = append(out.Points, p.point(q.Limit, s, s+step))
		if s < p.Begins {
			out.Points[len(out.Points)-1].Complete = false
		}
	}
	return out, p.Err
}

// HistoryKeys implements api.Node.
func (p *Past) HistoryKeys(_ context.Context, q history.KeysQuery) (history.KeysAnswer, error) {
	p.calls++
	p.Lists++
	sums := map[string]*history.KeyTotal{}
	type minute struct {
		key string
		at  history.Second
	}
	minutes := map[minute]quota.Units{}
	for _, a := range p.All {
		if a.Limit != q.Limit || a.At < q.From || a.At >= q.End {
			continue
		}
		minutes[minute{a.Key, a.At / 60}] += quota.FromTokens(a.Attempted)
		k := sums[a.Key]
		if k == nil {
			k = &history.KeyTotal{Key: a.Key}
			sums[a.Key] = k
		}
		k.Attempted += quota.FromTokens(a.Attempted)
		k.Admitted += quota.FromTokens(a.Admitted)
	}
	out := history.KeysAnswer{AsOf: p.AsOf, RangesCovered: p.Covered, RangesTotal: 4}
	if next := p.Unlisted + 60; p.Unlisted > 0 && next >= q.From && next < q.End {
		out.Gaps = []history.Gap{{From: p.Unlisted, End: p.Unlisted + 60}}
	}
	for m, u := range minutes {
		if one := (history.KeyPeak{Key: m.key, Attempted: u, Seconds: 60}); one.Above(&out.Peak) {
			out.Peak = one
		}
	}
	for _, k := range sums {
		out.Keys = append(out.Keys, *k)
	}
	slices.SortFunc(out.Keys, func(x, y history.KeyTotal) int {
		return cmp.Or(cmp.Compare(y.Attempted, x.Attempted), cmp.Compare(x.Key, y.Key))
	})
	if len(out.Keys) > q.Top {
		out.Rest, out.Keys = out.Keys[q.Top].Attempted, out.Keys[:q.Top]
	}
	return out, p.Err
}

// HistoryLimits implements api.Node.
func (p *Past) HistoryLimits(_ context.Context, from, end history.Second) ([]history.UsedLimit, history.Answer, error) {
	p.calls++
	var out []history.UsedLimit
	for _, a := range p.All {
		if a.At >= from && a.At < end && !slices.ContainsFunc(out, func(u history.UsedLimit) bool { return u.Limit == a.Limit }) {
			out = append(out, history.UsedLimit{Limit: a.Limit, Point: p.point(a.Limit, from, min(end, p.AsOf))})
		}
	}
	return out, history.Answer{AsOf: p.AsOf, RangesCovered: p.Covered, RangesTotal: 4}, p.Err
}

// History0 returns the start of the minute that t is in.
func History0(t time.Time) history.Second { return history.Second(t.Unix() / 60 * 60) }
