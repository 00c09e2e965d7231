package recorder

import (
	"path/filepath"
	"time"

	"github.com/quorate/quorate/internal/boltcheck"
	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/history/archive"
	"github.com/quorate/quorate/internal/quota"
)

// Intervals of storing.
const (
	storeEvery  = 10 * time.Second
	retainEvery = time.Hour
	warnEvery   = time.Minute
	// storeAfter is how many slots after a minute's end the minute is stored. By then most late uploads
	// have arrived; the newest minutes are read from memory anyway.
	storeAfter = history.Patience/history.SlotSeconds + 1
	// hourAfter is the same for an hour.
	hourAfter = 12
)

// historyDir is the directory of the history in the data directory.
const historyDir = "history"

// store keeps the history on this node's disk. Its loop stores what logs say, and the backfill adds what
// other replicas have.
type store struct {
	service *Recorder
	Archive *archive.Archive // nil if history is off, or the directory cannot be created
	Keys    keyStore
	hours   map[hourOf]bool // hours that changed since they were stored
	warned  time.Time
	retired time.Time
}

// hourOf is an hour of a range, identified by its first second.
type hourOf struct {
	r  quota.RangeID
	at history.Second
}

// Hour is the length of the longest points, in seconds.
const Hour = history.Second(3600)

// open opens the archive. A node without one still counts and uploads.
func (s *store) open(h *Recorder) {
	s.service, s.hours = h, map[hourOf]bool{}
	if h.cfg.Keep.Off || h.cfg.Dir == "" { // a node that is never started
		return
	}
	c := h.cfg.Keep
	a, err := archive.Open(filepath.Join(h.cfg.Dir, historyDir), archive.Config{
		Minutes: c.Minutes, Hours: c.Hours, MaxBytes: c.MaxBytes, Check: boltcheck.Check,
		Damaged: func(path string, why error) {
			h.log.Error("history: a damaged file was set aside; its content is lost on this node", "file", path, "err", why)
		},
	})
	if err != nil {
		h.log.Error("history: nothing is stored on this node", "err", err)
		h.failures.Inc()
		return
	}
	s.Archive = a
	s.Keys = keyStore{archive: a, hours: map[hourOf]bool{}}
}

// bytes returns the size of the archive's files.
func (s *store) bytes() float64 {
	if s.Archive == nil {
		return 0
	}
	size, err := s.Archive.Size()
	if err != nil {
		return 0
	}
	return float64(size)
}

func (s *store) close() error {
	if s.Archive == nil {
		return nil
	}
	return s.Archive.Close()
}

// run stores what has ended, once per storeEvery.
func (s *store) run() {
	if s.Archive == nil {
		return
	}
	tick := time.NewTicker(storeEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.service.ctx.Done():
			return
		case <-tick.C:
		}
		s.round(Second(s.service.node.Now()))
	}
}

// round stores what has ended, and removes what is too old. It removes even if nothing can be written,
// because old files may be what fills the disk.
func (s *store) round(now history.Second) {
	s.storeAll()
	if time.Since(s.retired) < retainEvery {
		return
	}
	s.retired = time.Now()
	gone, err := s.Archive.Retain(now)
	if err != nil {
		s.failed(err)
	}
	if len(gone) > 0 {
		s.service.log.Info("history: removed old or surplus files", "files", gone)
	}
}

// storeAll stores the minutes and hours that have ended and are not stored yet.
func (s *store) storeAll() {
	minutes, undo := s.minutes()
	if err := s.Archive.Put(archive.Minutes, minutes); err != nil {
		undo()
		s.failed(err)
		return
	}
	s.storeHours()
	if err := s.Keys.store(s.service.cfg.Ranges, s.service.node.Replica); err != nil {
		s.failed(err)
	}
}

// failed records that a write to disk failed. The write is tried again; decisions do not wait for it.
func (s *store) failed(err error) {
	s.service.failures.Inc()
	if time.Since(s.warned) >= warnEvery {
		s.warned = time.Now()
		s.service.log.Error("history: not stored; retrying for an hour, from memory", "err", err)
	}
}

// minutes takes the finished minutes to be stored, of all ranges. undo marks them as not stored again.
func (s *store) minutes() (out []archive.Entry, undo func()) {
	taken := map[*Replica][]history.Minute{}
	for id := range quota.RangeID(s.service.cfg.Ranges) {
		r := s.service.node.Replica(id)
		all, entries := r.popMinutes(id)
		if len(all) > 0 {
			taken[r] = all
			out = append(out, entries...)
		}
		for _, m := range all {
			s.hours[hourOf{id, m.Start() - m.Start()%Hour}] = true
		}
	}
	return out, func() {
		for r, all := range taken {
			r.returnMinutes(all)
		}
	}
}

// popMinutes returns the finished minutes that have changed, as archive entries, and marks them as
// stored.
func (r *Replica) popMinutes(id quota.RangeID) (taken []history.Minute, out []archive.Entry) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	first, _ := r.Recent.First()
	newest, _ := r.Recent.Newest()
	for m := range r.changed {
		from, end := m.First(), (m + 1).First()
		if end+storeAfter > newest {
			continue
		}
		delete(r.changed, m)
		if from >= first && r.Recent.Any(from, end) { // otherwise the disk has a more complete copy
			taken = append(taken, m)
			out = append(out, r.entry(id, from, end))
		}
	}
	return taken, out
}

// returnMinutes marks minutes as not stored.
func (r *Replica) returnMinutes(all []history.Minute) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	for _, m := range all {
		r.changed[m] = true
	}
}

// entry returns the stored form of some slots. The caller holds r.Mu.
func (r *Replica) entry(id quota.RangeID, from, end history.Slot) archive.Entry {
	cover := r.Recent.Covered(from, end)
	e := archive.Entry{Range: id, Coverage: archive.Coverage{Start: from.First(), Complete: cover.Complete, Missing: cover.Missing}}
	limits := map[quota.LimitName]bool{}
	r.Recent.Limits(from, end, limits)
	for l := range limits {
		e.Points = append(e.Points, archive.Point{Limit: l, Point: r.Recent.Point(l, from, end)})
	}
	return e
}

// storeHours stores the finished hours that have changed: exactly, from memory, if all of the hour is
// there, else from the minutes on disk.
func (s *store) storeHours() {
	var out []archive.Entry
	var done []hourOf
	for h := range s.hours {
		e, ok := s.hour(h)
		if ok {
			out, done = append(out, e), append(done, h)
		}
	}
	if err := s.Archive.Put(archive.Hours, out); err != nil {
		s.failed(err)
		return
	}
	for _, h := range done {
		delete(s.hours, h)
	}
}

func (s *store) hour(h hourOf) (archive.Entry, bool) {
	from, end := h.at.Slot(), (h.at + Hour).Slot()
	if e, over, there := s.service.node.Replica(h.r).hour(h.r, from, end); !over || there {
		return e, over
	}
	limits, err := s.Archive.Limits(archive.Minutes, h.r, h.at, h.at+Hour)
	if err != nil {
		s.failed(err)
		return archive.Entry{}, false
	}
	limits[history.Other] = true // ensures that there is a coverage even without a limit
	e := archive.Entry{Range: h.r, Coverage: archive.Coverage{Start: h.at}}
	for l := range limits {
		var parts []history.Point
		if err := s.Archive.Read(archive.Minutes, h.r, l, h.at, h.at+Hour, func(p history.Point) bool {
			parts = append(parts, p)
			return true
		}); err != nil {
			s.failed(err)
			return archive.Entry{}, false
		}
		p := history.Merge(h.at, int(Hour), parts)
		e.Complete, e.Missing = p.Complete, p.Missing
		if p.Counts != (history.Counts{}) {
			e.Points = append(e.Points, archive.Point{Limit: l, Point: p})
		}
	}
	return e, true
}

// hour returns the stored form of an hour from memory. over reports whether the hour has ended, and
// there whether all of it is in memory.
func (r *Replica) hour(id quota.RangeID, from, end history.Slot) (e archive.Entry, over, there bool) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	first, any := r.Recent.First()
	newest, _ := r.Recent.Newest()
	if !any || end+hourAfter > newest {
		return e, false, false
	}
	if from < first {
		return e, true, false
	}
	return r.entry(id, from, end), true, true
}

// Read returns the points of a limit that are on disk, at most maxHistoryPoints and one more.
func (s *store) Read(res archive.Resolution, r quota.RangeID, l quota.LimitName, from, end history.Second) ([]history.Point, error) {
	if s.Archive == nil || from >= end {
		return nil, nil
	}
	var out []history.Point
	err := s.Archive.Read(res, r, l, from, end, func(p history.Point) bool {
		out = append(out, p)
		return len(out) <= maxHistoryPoints
	})
	return out, err
}
