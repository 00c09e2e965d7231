package recorder

import (
	"context"
	"maps"

	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/history/archive"
	"github.com/quorate/quorate/internal/quota"
)

// localPoints answers a query for points from this node's replica of the range. asOf is the time that
// its log reaches.
func (s *Recorder) localPoints(r quota.RangeID, q history.Query) (points []history.Point, asOf history.Second, err error) {
	rep := s.node.Replica(r)
	step := history.Second(q.Step)
	from := q.From - q.From%step
	if q.Step == 1 {
		points, asOf = rep.seconds(q.Limit, q.From, q.End)
		return points, asOf, nil
	}
	points, since, asOf := rep.Points(q.Limit, from, q.End, step)
	if from >= since {
		return points, asOf, nil
	}
	res := archive.Minutes
	if step == Hour {
		res = archive.Hours
	}
	older, err := s.Files.Read(res, r, q.Limit, from, min(since, q.End))
	if err == nil && step == Hour {
		older, err = s.fillHours(r, q.Limit, from, min(since, q.End), older)
	}
	return append(older, points...), asOf, err
}

// fillHours adds the hours that are not on disk, computed from the minutes that are. It does not read the
// minutes of stored hours: there are sixty times as many.
func (s *Recorder) fillHours(r quota.RangeID, l quota.LimitName, from, end history.Second, have []history.Point) ([]history.Point, error) {
	var out []history.Point
	for i := range have {
		made, err := s.hoursOfMinutes(r, l, from, have[i].Start)
		if err != nil {
			return have, err
		}
		out = append(append(out, made...), have[i])
		from = have[i].Start + Hour
	}
	made, err := s.hoursOfMinutes(r, l, from, end)
	return append(out, made...), err
}

func (s *Recorder) hoursOfMinutes(r quota.RangeID, l quota.LimitName, from, end history.Second) (out []history.Point, err error) {
	minutes, err := s.Files.Read(archive.Minutes, r, l, from, end)
	for i := 0; i < len(minutes); {
		at, j := minutes[i].Start-minutes[i].Start%Hour, i
		for j < len(minutes) && minutes[j].Start < at+Hour {
			j++
		}
		out = append(out, history.Merge(at, int(Hour), minutes[i:j]))
		i = j
	}
	return out, err
}

func (r *Replica) asOf() history.Second {
	newest, any := r.Recent.Newest()
	if !any {
		return 0
	}
	return newest.End()
}

// seconds returns a point for each second in memory, and at the leader for those in which it knows that
// nothing was counted. Without these, a limit that nobody uses would seem unknown for up to MaxIdle.
func (r *Replica) seconds(l quota.LimitName, from, end history.Second) ([]history.Point, history.Second) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	first, any := r.Recent.First()
	if !any {
		return nil, 0
	}
	asOf := r.asOf()
	points := r.Recent.Seconds(l, max(from, first.First()), min(end, asOf))
	if r.Collector == nil || r.idleTo <= asOf {
		return points, asOf
	}
	for at := max(from, asOf); at < min(end, r.idleTo); at++ { // lines without counts wait up to MaxIdle
		points = append(points, history.Point{Start: at, Seconds: 1, Complete: true})
	}
	return points, r.idleTo
}

// Points returns the points that begin in memory, at or after since. The last point may be unfinished:
// then it covers the seconds that the log reaches, and is not complete.
func (r *Replica) Points(l quota.LimitName, from, end, step history.Second) (out []history.Point, since, asOf history.Second) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	first, any := r.Recent.First()
	if !any {
		return nil, end, 0
	}
	asOf = r.asOf()
	since = first.First() + (step-first.First()%step)%step
	for at := max(from, since); at < min(end, asOf); at += step {
		if !r.Recent.Any(at.Slot(), (at + step).Slot()) {
			continue
		}
		p := r.Recent.Point(l, at.Slot(), min(at+step, asOf).Slot())
		p.Complete = p.Complete && at+step <= asOf
		out = append(out, p)
	}
	return out, since, asOf
}

// localLimits returns the limits that were used, each with one point for the whole time range.
func (s *Recorder) localLimits(ctx context.Context, r quota.RangeID, from, end history.Second) ([]history.UsedLimit, history.Second, error) {
	rep := s.node.Replica(r)
	all, step, err := s.limitsOf(r, from, end)
	if err != nil {
		return nil, 0, err
	}
	rep.Mu.Lock()
	asOf := rep.asOf()
	rep.Mu.Unlock()
	out := make([]history.UsedLimit, 0, len(all))
	for l := range all {
		if ctx.Err() != nil { // there may be thousands of limits
			return nil, 0, ctx.Err()
		}
		p, err := s.whole(r, l, from, end, step)
		if err != nil {
			return nil, 0, err
		}
		if p.Counts != (history.Counts{}) {
			out = append(out, history.UsedLimit{Limit: l, Point: p})
		}
	}
	return out, asOf, nil
}

// longTimeRange is the length beyond which a time range is summed by hours.
const longTimeRange = 6 * Hour

// limitsOf returns the limits, and the step in seconds of the points to read for them: hours for long
// time ranges and where minutes are no longer kept, else minutes.
func (s *Recorder) limitsOf(r quota.RangeID, from, end history.Second) (all map[quota.LimitName]bool, step int, err error) {
	rep, all, step := s.node.Replica(r), map[quota.LimitName]bool{}, 60
	rep.Mu.Lock()
	rep.Recent.Limits(from.Slot(), (end + history.SlotSeconds - 1).Slot(), all)
	first, any := rep.Recent.First()
	rep.Mu.Unlock()
	if s.Files.Archive == nil || any && from >= first.First() {
		return all, step, nil
	}
	var older map[quota.LimitName]bool
	if end-from <= longTimeRange {
		older, err = s.Files.Archive.Limits(archive.Minutes, r, from-from%60, end)
	}
	if err == nil && len(older) == 0 {
		step = int(Hour)
		older, err = s.Files.Archive.Limits(archive.Hours, r, from-from%Hour, end)
	}
	maps.Copy(all, older)
	return all, step, err
}

// whole returns one point for a whole time range: exact if the time range is in memory, else merged from
// minutes or hours, of which the first and last may lie partly outside the time range.
func (s *Recorder) whole(r quota.RangeID, l quota.LimitName, from, end history.Second, step int) (history.Point, error) {
	rep := s.node.Replica(r)
	rep.Mu.Lock()
	first, any := rep.Recent.First()
	if any && from >= first.First() {
		defer rep.Mu.Unlock()
		return history.Exactly(from, end, rep.Recent.Seconds(l, from, end)), nil
	}
	rep.Mu.Unlock()
	parts, _, err := s.localPoints(r, history.Query{Limit: l, From: from, End: end, Step: step})
	return history.Merge(from, int(end-from), parts), err
}
