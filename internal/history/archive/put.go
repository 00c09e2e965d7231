package archive

import (
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/quota"
)

// Entry holds the data of a range for one minute or hour: the coverage, and a point for each
// limit with demand.
type Entry struct {
	Range  quota.RangeID
	Points []Point // all for the time Coverage.Start; Read does not use their own Start
	Coverage
}

// Coverage describes how complete the data of a range are for one minute or hour. If it exists,
// a limit without a point had no demand.
type Coverage struct {
	Start    history.Second
	Complete bool
	Missing  []history.Process // in order
}

// Point is a history point with its limit.
type Point struct {
	Limit quota.LimitName
	history.Point
}

var (
	bucketLimits = []byte("limits") // name -> number
	bucketNames  = []byte("names")  // number -> name
)

// key returns the bbolt key of a time and a limit's number. Keys sort by time, then by limit;
// number 0 is the coverage.
func key(start history.Second, limit uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(start/60)), limit)
}

func rangeBucket(r quota.RangeID) []byte {
	return binary.BigEndian.AppendUint32([]byte("range"), uint32(r))
}

// Put stores entries of one resolution of points. Of the entries that belong to one file it stores
// all or none. An entry replaces stored data of the same range, time and limit.
func (a *Archive) Put(r Resolution, entries []Entry) error {
	rows := make([]Rows, 0, len(entries))
	for i := range entries {
		e := &entries[i]
		s := Rows{Range: e.Range, Start: e.Start, Cover: appendCoverage(nil, &e.Coverage)}
		for j := range e.Points {
			s.Of = append(s.Of, Row{e.Points[j].Limit, e.Points[j].Append(nil)})
		}
		rows = append(rows, s)
	}
	return a.PutRows(r, rows)
}

// Rows is the encoded data of a range for one minute or hour.
type Rows struct {
	Range quota.RangeID
	Start history.Second
	Cover []byte // encoded coverage, or span of keys
	Of    []Row  // one row per limit
}

// Row is the encoded data of a limit for one minute or hour.
type Row struct {
	Limit quota.LimitName
	Data  []byte
}

// PutRows stores rows that are already encoded, as Put does.
func (a *Archive) PutRows(r Resolution, rows []Rows) error {
	files := map[string][]*Rows{}
	for i := range rows {
		name := r.file(rows[i].Start)
		files[name] = append(files[name], &rows[i])
	}
	var errs []error
	for name, of := range files {
		errs = append(errs, a.putInto(name, of))
	}
	return errors.Join(errs...)
}

func (a *Archive) putInto(name string, of []*Rows) error {
	err := a.with(name, true, func(db *bbolt.DB) error {
		return db.Update(func(tx *bbolt.Tx) error {
			w, err := newWriter(tx)
			for i := 0; err == nil && i < len(of); i++ {
				err = w.put(of[i])
			}
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("history: write %s: %w", name, err)
	}
	return nil
}

// writer writes rows in one transaction. It gives each new limit the next number.
type writer struct {
	tx            *bbolt.Tx
	limits, names *bbolt.Bucket
}

func newWriter(tx *bbolt.Tx) (*writer, error) {
	limits, err := tx.CreateBucketIfNotExists(bucketLimits)
	if err != nil {
		return nil, err
	}
	names, err := tx.CreateBucketIfNotExists(bucketNames)
	return &writer{tx, limits, names}, err
}

func (w *writer) put(e *Rows) error {
	b, err := w.tx.CreateBucketIfNotExists(rangeBucket(e.Range))
	if err != nil {
		return err
	}
	b.FillPercent = 0.95 // entries arrive in the order of time
	if err := b.Put(key(e.Start, 0), e.Cover); err != nil {
		return err
	}
	for i := range e.Of {
		n, err := w.number(e.Of[i].Limit)
		if err != nil {
			return err
		}
		if err := b.Put(key(e.Start, n), e.Of[i].Data); err != nil {
			return err
		}
	}
	return nil
}

// number returns the limit's number in this file, and assigns one if it has none. Numbers start at 1.
func (w *writer) number(l quota.LimitName) (uint32, error) {
	name := []byte(l.String())
	if have := w.limits.Get(name); have != nil {
		return binary.BigEndian.Uint32(have), nil
	}
	next, err := w.limits.NextSequence()
	if err != nil {
		return 0, err
	}
	n := binary.BigEndian.AppendUint32(nil, uint32(next))
	return uint32(next), errors.Join(w.limits.Put(name, n), w.names.Put(n, name))
}

// Drop deletes the data of a range. Call it when the node no longer has a replica of the range.
func (a *Archive) Drop(r quota.RangeID) error {
	var errs []error
	for _, res := range Resolutions {
		names, err := a.names(res)
		errs = append(errs, err)
		for _, name := range names {
			errs = append(errs, a.dropFrom(name, r))
		}
	}
	return errors.Join(errs...)
}

func (a *Archive) dropFrom(name string, r quota.RangeID) error {
	return a.with(name, false, func(db *bbolt.DB) error {
		err := db.Update(func(tx *bbolt.Tx) error { return tx.DeleteBucket(rangeBucket(r)) })
		if errors.Is(err, bolterrors.ErrBucketNotFound) { // nothing is committed: boltcheck takes a file without buckets only as bbolt creates it
			return nil
		}
		return err
	})
}
