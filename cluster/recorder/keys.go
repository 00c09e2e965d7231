package recorder

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/history/archive"
	"github.com/quorate/quorate/internal/quota"
)

// keyStore has the keys of limits on disk: of each minute what the lists of its range say, of each
// hour what its minutes say together. One goroutine at a time.
type keyStore struct {
	archive *archive.Archive
	hours   map[hourOf]bool // not stored as they are
}

// store stores what is over and not stored, of one range.
func (s *keyStore) store(id quota.RangeID, r *Replica) error {
	taken, entries := r.takeKeys(id)
	if err := s.archive.PutKeys(archive.KeyMinutes, entries); err != nil {
		r.returnKeys(taken)
		return err
	}
	for _, m := range taken {
		s.hours[hourOf{id, m.Start() - m.Start()%Hour}] = true
	}
	newest := r.newestKeys()
	for h := range s.hours {
		if h.r != id || h.at+Hour > newest.Start() {
			continue
		}
		e, err := s.hour(h)
		if err == nil {
			err = s.archive.PutKeys(archive.KeyHours, []archive.KeysEntry{e})
		}
		if err != nil {
			return err
		}
		delete(s.hours, h)
	}
	return nil
}

// hour adds up the minutes of an hour that are on disk.
func (s *keyStore) hour(h hourOf) (archive.KeysEntry, error) {
	limits, err := s.archive.Limits(archive.KeyMinutes, h.r, h.at, h.at+Hour)
	if err != nil {
		return archive.KeysEntry{}, err
	}
	limits[history.Other] = true // so that there is a span if there is no limit
	e := archive.KeysEntry{Range: h.r, Start: h.at}
	for _, l := range slices.SortedFunc(maps.Keys(limits), compareLimitNames) {
		var sum history.KeysSum
		if err := s.archive.ReadKeys(archive.KeyMinutes, h.r, l, h.at, h.at+Hour, func(p history.KeysPart) { sum.Add(&p) }); err != nil {
			return archive.KeysEntry{}, err
		}
		if t := sum.Top(l, history.KeysHour); len(t.Keys) > 0 || t.Rest > 0 {
			e.Lists = append(e.Lists, t)
		}
		e.KeysSpan = sum.Span() // the same of each limit
	}
	return e, nil
}

// takeKeys returns the minutes whose keys have changed and are over, as entries of an archive.
// They count as stored from then on.
func (r *Replica) takeKeys(id quota.RangeID) (taken []history.Minute, out []archive.KeysEntry) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	first, _ := r.keys.First()
	newest, _ := r.keys.Newest()
	for m := range r.changedKeys {
		if m >= newest {
			continue
		}
		delete(r.changedKeys, m)
		if m < first { // or what is on disk is more complete
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

// returnKeys has the keys of minutes stored again.
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

// Top adds what the lists in memory say of a limit, and returns until when lists reach; 0 is
// that there are none.
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

// keysSince is from when on the lists of keys are in memory; end if there are none.
func (r *Replica) keysSince(end history.Second) history.Second {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	first, any := r.keys.First()
	if !any {
		return end
	}
	return first.Start()
}

// Read returns what is known of the keys of a limit in the minutes that from and end are in; of more than longStretch,
// and where no minutes are kept any more, what is not in memory, in the hours. asOf is until when lists reach.
func (s *keyStore) Read(id quota.RangeID, r *Replica, l quota.LimitName, from, end history.Second) (sum history.KeysSum, asOf history.Second, err error) {
	long := end-from > longStretch
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

// readLong adds hours, and the minutes of those that are not stored, or not whole in the stretch.
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

// unattributed returns what was asked of a limit in gaps, as far as its history has it: it is the
// most that is in no list of keys.
func (s *Recorder) unattributed(ctx context.Context, l quota.LimitName, gaps []history.Gap) (quota.Units, error) {
	return askedIn(gaps, Second(s.node.Now()), func(g history.Gap, step history.Second) (history.Answer, error) {
		return s.History(ctx, history.Query{Limit: l, From: g.From, End: g.End, Step: int(step)})
	})
}

// askedIn adds up what was asked for in gaps, which are in order. A point that several gaps are in counts once.
func askedIn(gaps []history.Gap, now history.Second, read func(g history.Gap, step history.Second) (history.Answer, error)) (sum quota.Units, err error) {
	upto := history.Second(0)
	for _, g := range gaps {
		g.From = max(0, g.From-bookedLate)
		step := history.Second(1)
		if now-g.From > Hour {
			step = 60
		}
		if g.End-g.From > longStretch {
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

// bookedLate is for how many seconds what was asked of a key can be on its way to its leader.
const bookedLate = 2

func compareLimitNames(a, b quota.LimitName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Limit, b.Limit))
}
