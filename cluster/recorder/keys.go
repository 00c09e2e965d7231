package recorder

import (
	"context"
	"maps"
	"slices"

	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/history/archive"
	"github.com/quorate/quorate/internal/quota"
)

// keyStore stores the keys of limits on disk: for each minute what the lists of its range say, and for
// each hour the sum of its minutes. It is not safe for concurrent use.
type keyStore struct {
	archive *archive.Archive
	hours   map[hourOf]bool // hours that changed since they were stored
}

// store stores the finished minutes and hours of all ranges that are not on disk yet, in one transaction
// for each file: a transaction takes two syncs.
func (s *keyStore) store(ranges int, replica func(quota.RangeID) *Replica) error {
	var minutes []archive.KeysEntry
	taken := map[quota.RangeID][]history.Minute{}
	for id := range quota.RangeID(ranges) {
		all, entries := replica(id).popKeys(id)
		if len(all) > 0 {
			taken[id], minutes = all, append(minutes, entries...)
		}
	}
	if err := s.archive.PutKeys(archive.KeyMinutes, minutes); err != nil {
		for id, all := range taken {
			replica(id).returnKeys(all)
		}
		return err
	}
	for id, all := range taken {
		for _, m := range all {
			s.hours[hourOf{id, m.Start() - m.Start()%Hour}] = true
		}
	}
	return s.storeHours(replica)
}

// hourLists bounds the lists of hours that are in memory to be stored together, unless a single hour has more.
const hourLists = 4096

// storeHours stores the hours that have ended and are not on disk yet.
func (s *keyStore) storeHours(replica func(quota.RangeID) *Replica) error {
	var entries []archive.KeysEntry
	var done []hourOf
	lists := 0
	put := func() error {
		if err := s.archive.PutKeys(archive.KeyHours, entries); err != nil {
			return err
		}
		for _, h := range done {
			delete(s.hours, h)
		}
		entries, done, lists = nil, nil, 0
		return nil
	}
	for h := range s.hours {
		if h.at+Hour > replica(h.r).newestKeys().Start() {
			continue
		}
		e, err := s.hour(h)
		if err != nil {
			return err
		}
		entries, done = append(entries, e), append(done, h)
		if lists += len(e.Lists); lists >= hourLists {
			if err := put(); err != nil {
				return err
			}
		}
	}
	return put()
}

// hour sums the minutes of an hour that are on disk.
func (s *keyStore) hour(h hourOf) (archive.KeysEntry, error) {
	limits, err := s.archive.Limits(archive.KeyMinutes, h.r, h.at, h.at+Hour)
	if err != nil {
		return archive.KeysEntry{}, err
	}
	limits[history.Other] = true // ensures that there is a span even without a limit
	e := archive.KeysEntry{Range: h.r, Start: h.at}
	for _, l := range slices.SortedFunc(maps.Keys(limits), quota.LimitName.Compare) {
		var sum history.KeysSum
		if err := s.archive.ReadKeys(archive.KeyMinutes, h.r, l, h.at, h.at+Hour, func(p history.KeysPart) { sum.Add(&p) }); err != nil {
			return archive.KeysEntry{}, err
		}
		if t := sum.Top(l, history.KeysHour); len(t.Keys) > 0 || t.Rest > 0 {
			e.Lists = append(e.Lists, t)
		}
		e.KeysSpan = sum.Span() // the same for every limit
	}
	return e, nil
}

// popKeys returns the finished minutes whose keys have changed, as archive entries, and marks them as
// stored.
func (r *Replica) popKeys(id quota.RangeID) (taken []history.Minute, out []archive.KeysEntry) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	first, _ := r.keys.First()
	newest, _ := r.keys.Newest()
	for m := range r.changedKeys {
		if m >= newest {
			continue
		}
		delete(r.changedKeys, m)
		if m < first { // the disk has a more complete copy
			continue
		}
		e := archive.KeysEntry{Range: id, Start: m.Start()}
		for _, l := range r.keys.Limits(m) {
			p, _ := r.keys.Minute(l, m)
			e.Lists = append(e.Lists, history.TopOf(l, []history.TopKeys{p.Top}, history.KeysEach))
		}
		p, _ := r.keys.Minute(history.Other, m)
		e.KeysSpan = p.KeysSpan
		taken, out = append(taken, m), append(out, e)
	}
	return taken, out
}

// returnKeys marks the keys of minutes as not stored.
func (r *Replica) returnKeys(all []history.Minute) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	for _, m := range all {
		r.changedKeys[m] = true
	}
}

func (r *Replica) newestKeys() history.Minute {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	newest, _ := r.keys.Newest()
	return newest
}

// Top adds the lists in memory of a limit to sum. It returns the time that lists reach, or 0 if there
// are no lists.
func (r *Replica) Top(l quota.LimitName, from, end history.Second, sum *history.KeysSum) history.Second {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	newest, any := r.keys.Newest()
	if !any {
		return 0
	}
	for _, m := range r.keys.Minutes() {
		if p, there := r.keys.Minute(l, m); there && m.Start() >= from && m.Start() < end {
			sum.Add(&p)
		}
	}
	return (newest + 1).Start()
}

// keysSince returns the time from which on lists of keys are in memory, or end without any.
func (r *Replica) keysSince(end history.Second) history.Second {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	first, any := r.keys.First()
	if !any {
		return end
	}
	return first.Start()
}

// Read returns what is known about the keys of a limit in the minutes that contain from and end. It uses
// whole hours for minutes that are not in memory if the time range exceeds longTimeRange, or if its minutes
// are no longer kept. asOf is the time that lists reach.
func (s *keyStore) Read(id quota.RangeID, r *Replica, l quota.LimitName, from, end history.Second) (sum history.KeysSum, asOf history.Second, err error) {
	long := end-from > longTimeRange
	from, end = from-from%60, end+(60-end%60)%60
	if since := min(r.keysSince(end), end); s.archive != nil && from < since {
		known := false
		if !long {
			err = s.archive.ReadKeys(archive.KeyMinutes, id, l, from, since, func(p history.KeysPart) { known = true; sum.Add(&p) })
		}
		if err == nil && !known {
			err = s.readLong(id, l, from-from%Hour, since, &sum)
		}
		from = since
	}
	asOf = r.Top(l, from, end, &sum)
	return sum, asOf, err
}

func (s *keyStore) readMinutes(id quota.RangeID, l quota.LimitName, from, end history.Second, sum *history.KeysSum) error {
	return s.archive.ReadKeys(archive.KeyMinutes, id, l, from, end, func(p history.KeysPart) { sum.Add(&p) })
}

// readLong adds stored hours, and the minutes of hours that are not stored or only partly in the time range.
func (s *keyStore) readLong(id quota.RangeID, l quota.LimitName, from, end history.Second, sum *history.KeysSum) error {
	whole := end - end%Hour
	var hours []history.KeysPart
	if err := s.archive.ReadKeys(archive.KeyHours, id, l, from, whole, func(p history.KeysPart) { hours = append(hours, p) }); err != nil {
		return err
	}
	for i := range hours {
		if err := s.readMinutes(id, l, from, hours[i].Start, sum); err != nil {
			return err
		}
		sum.Add(&hours[i])
		from = hours[i].Start + Hour
	}
	return s.readMinutes(id, l, from, end, sum)
}

// unattributed returns how much of a limit was asked for during gaps, as far as its history says: an
// upper bound on what no list of keys contains.
func (s *Recorder) unattributed(ctx context.Context, l quota.LimitName, gaps []history.Gap) (quota.Units, error) {
	return askedIn(gaps, Second(s.node.Now()), func(g history.Gap, step history.Second) (history.Answer, error) {
		return s.History(ctx, history.Query{Limit: l, From: g.From, End: g.End, Step: int(step)})
	})
}

// askedIn sums what was asked for in gaps, which must be in order. A point within several gaps counts once.
func askedIn(gaps []history.Gap, now history.Second, read func(g history.Gap, step history.Second) (history.Answer, error)) (sum quota.Units, err error) {
	upto := history.Second(0)
	for _, g := range gaps {
		g.From = max(0, g.From-bookedLate)
		step := history.Second(1)
		if now-g.From > Hour {
			step = 60
		}
		if g.End-g.From > longTimeRange {
			step = Hour
		}
		a, err := read(g, step)
		if err != nil {
			return 0, err
		}
		for i := range a.Points {
			p := &a.Points[i]
			if end := p.Start + history.Second(p.Seconds); end > upto {
				sum, upto = sum.Plus(p.Attempted), end
			}
		}
	}
	return sum, nil
}

// bookedLate is the number of seconds that a request for a key may take to reach its leader.
const bookedLate = 2
