package api

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/quota"
)

// noon is when it is in tests of the past.
var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// asked is what a key was asked for, and admitted, in a second.
type asked struct {
	at                  history.Second
	limit               quota.LimitName
	key                 string
	attempted, admitted int64
}

// fakePast remembers every second.
type fakePast struct {
	*fakeNode
	all      []asked
	asOf     history.Second
	begins   history.Second                  // nothing is known of before
	missing  map[history.Second]quota.NodeID // by minute
	covered  int                             // of 4 ranges
	unlisted history.Second                  // a minute of which there is no list of keys, as the list of the next one says
	err      error
	calls    int
	lists    int  // calls of HistoryKeys
	admits   bool // admits everything; else ten tokens per second and key
}

var _ HistoryStore = (*fakePast)(nil)

func newPast(t testing.TB) *fakePast {
	return &fakePast{fakeNode: newFake(t), asOf: history.Second(noon.Unix()), covered: 4, missing: map[history.Second]quota.NodeID{}}
}

func (p *fakePast) service() *service {
	s := newService(p, Options{})
	s.clock = func() time.Time { return noon }
	return s
}

// ask remembers seconds that end so long before noon, the oldest first.
func (p *fakePast) ask(name, key string, ago time.Duration, tokens ...int64) {
	limit, _ := quota.ParseLimitName(name)
	for i, n := range tokens {
		admitted := n
		if !p.admits {
			admitted = min(n, 10)
		}
		p.all = append(p.all, asked{history.Second(noon.Add(-ago).Unix() + int64(i)), limit, key, n, admitted})
	}
}

func (p *fakePast) point(limit quota.LimitName, from, end history.Second) history.Point {
	out := history.Point{Start: from, Seconds: int(end - from), Complete: true}
	demand := make([]quota.Units, max(1, end-from))
	for _, a := range p.all {
		if a.limit == limit && a.at >= from && a.at < end {
			out.Add(&history.Counts{Attempted: quota.FromTokens(a.attempted), Admitted: quota.FromTokens(a.admitted)})
			demand[a.at-from] += quota.FromTokens(a.attempted)
		}
	}
	for m := from - from%60; m < end; m += 60 {
		if who, ok := p.missing[m]; ok {
			out.Complete, out.Missing = false, []history.Process{{Node: who}}
		}
	}
	slices.Sort(demand)
	at := func(percent int) quota.Units { return demand[(len(demand)*percent+99)/100-1] }
	out.P50, out.P95, out.P99, out.Peak, out.Mean = at(50), at(95), at(99), demand[len(demand)-1], out.Attempted/quota.Units(len(demand))
	return out
}

func (p *fakePast) History(_ context.Context, q history.Query) (history.Answer, error) {
	p.calls++
	out := history.Answer{AsOf: p.asOf, RangesCovered: 1, RangesTotal: 1}
	step := history.Second(q.Step)
	for s := q.From - q.From%step; s < min(q.End, p.asOf); s += step {
		if s+step <= p.begins {
			continue
		}
		out.Points = append(out.Points, p.point(q.Limit, s, s+step))
		if s < p.begins {
			out.Points[len(out.Points)-1].Complete = false
		}
	}
	return out, p.err
}

func (p *fakePast) HistoryKeys(_ context.Context, q history.KeysQuery) (history.KeysAnswer, error) {
	p.calls++
	p.lists++
	sums := map[string]*history.KeyTotal{}
	type minute struct {
		key string
		at  history.Second
	}
	minutes := map[minute]quota.Units{}
	for _, a := range p.all {
		if a.limit != q.Limit || a.at < q.From || a.at >= q.End {
			continue
		}
		minutes[minute{a.key, a.at / 60}] += quota.FromTokens(a.attempted)
		k := sums[a.key]
		if k == nil {
			k = &history.KeyTotal{Key: a.key}
			sums[a.key] = k
		}
		k.Attempted += quota.FromTokens(a.attempted)
		k.Admitted += quota.FromTokens(a.admitted)
	}
	out := history.KeysAnswer{AsOf: p.asOf, RangesCovered: p.covered, RangesTotal: 4}
	if next := p.unlisted + 60; p.unlisted > 0 && next >= q.From && next < q.End {
		out.Gaps = []history.Gap{{From: p.unlisted, End: p.unlisted + 60}}
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
	return out, p.err
}

func (p *fakePast) HistoryLimits(_ context.Context, from, end history.Second) ([]history.UsedLimit, history.Answer, error) {
	p.calls++
	var out []history.UsedLimit
	for _, a := range p.all {
		if a.at >= from && a.at < end && !slices.ContainsFunc(out, func(u history.UsedLimit) bool { return u.Limit == a.limit }) {
			out = append(out, history.UsedLimit{Limit: a.limit, Point: p.point(a.limit, from, min(end, p.asOf))})
		}
	}
	return out, history.Answer{AsOf: p.asOf, RangesCovered: p.covered, RangesTotal: 4}, p.err
}

var errGone = errors.New("the reader has gone")

// history0 is the minute that a time is in.
func history0(t time.Time) history.Second { return history.Second(t.Unix() / 60 * 60) }
