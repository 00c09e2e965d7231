package archive

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/quota"
)

// Rows returns the content of a range in [from, end) for another replica, oldest first. It stops
// when the result reaches most bytes. next is the time to continue from; 0 if nothing is left.
func (a *Archive) Rows(r Resolution, rng quota.RangeID, from, end history.Second, most int) (out []Rows, next history.Second, err error) {
	size := 0
	err = a.eachFile(r, from, end, func(tx *bbolt.Tx, at, till history.Second) error {
		b, names := tx.Bucket(rangeBucket(rng)), tx.Bucket(bucketNames)
		if b == nil || names == nil || next > 0 {
			return nil
		}
		return eachTime(b, at, till, r.Seconds(), func(at history.Second, cover []byte) error {
			if next > 0 {
				return nil
			}
			if size >= most {
				next = at
				return nil
			}
			rows := Rows{Range: rng, Start: at, Cover: slices.Clone(cover)}
			size += len(cover) + 16
			c := b.Cursor()
			for k, v := c.Seek(key(at, 1)); k != nil && startOf(k) == at; k, v = c.Next() {
				l, err := nameOf(names, k[4:])
				if err != nil {
					return err
				}
				rows.Of = append(rows.Of, Row{l, slices.Clone(v)})
				size += len(v) + len(l.Namespace) + len(l.Limit) + 16
			}
			out = append(out, rows)
			return nil
		})
	})
	return out, next, err
}

// nameOf returns the limit that has that number in a file.
func nameOf(names *bbolt.Bucket, number []byte) (quota.LimitName, error) {
	namespace, name, found := strings.Cut(string(names.Get(number)), "/")
	if !found {
		return quota.LimitName{}, fmt.Errorf("limit %d: has no name", binary.BigEndian.Uint32(number))
	}
	return quota.LimitName{Namespace: namespace, Limit: name}, nil
}

// eachFile calls f with every existing file of [from, end) and the part of the time that is in the
// file.
func (a *Archive) eachFile(r Resolution, from, end history.Second, f func(tx *bbolt.Tx, from, end history.Second) error) error {
	for at := from; at < end; at = next(r, at) {
		if err := a.view(r.file(at), func(tx *bbolt.Tx) error { return f(tx, max(from, at), min(end, next(r, at))) }); err != nil {
			return fmt.Errorf("history: read %s: %w", r.file(at), err)
		}
	}
	return nil
}

// Holes returns, in order, the parts of [from, end) in which a range has no data, or possibly less
// than another replica.
func (a *Archive) Holes(r Resolution, rng quota.RangeID, from, end history.Second) ([]history.Gap, error) {
	var out []history.Gap
	step := r.Seconds()
	from, end = from-from%step, end-end%step
	there := from
	err := a.eachFile(r, from, end, func(tx *bbolt.Tx, at, till history.Second) error {
		b := tx.Bucket(rangeBucket(rng))
		if b == nil {
			return nil
		}
		return eachTime(b, at, till, step, func(at history.Second, cover []byte) error {
			if q, err := worth(r, at, cover); err == nil && q == best {
				out = append(out, history.Gap{From: there, End: at})
				there = at + step
			}
			return nil
		})
	})
	return history.Gaps(append(out, history.Gap{From: there, End: end}), int(end-from)), err
}

// The highest and lowest result of worth.
const (
	best  = 1 << 62
	worst = -best
)

// worth ranks a coverage by how complete it is. Of two coverages of the same time, the archive
// keeps the one of higher worth.
func worth(r Resolution, at history.Second, cover []byte) (int64, error) {
	if r == Minutes || r == Hours {
		c, err := decodeCoverage(cover)
		switch {
		case err == nil && c.Complete:
			return best, nil
		case len(c.Missing) == 0: // this node did not see all of the time
			return worst, err
		}
		return -int64(len(c.Missing)), err
	}
	s, err := history.DecodeSpan(cover)
	if err == nil && s.From < at+60 { // leaders make lists a little after the minute that they cover
		return best, nil
	}
	return -int64(s.From), err
}

// maxRows is the most times that one Fill accepts.
const maxRows = 100_000

var errCopy = errors.New("damaged copy")

// Fill stores rows of another replica for every time at which the archive has no data or a coverage
// of lower worth. It returns the number of times stored. If any row is not one that this version
// would write, Fill returns an error and stores nothing.
func (a *Archive) Fill(r Resolution, rng quota.RangeID, rows []Rows) (int, error) {
	if len(rows) > maxRows {
		return 0, fmt.Errorf("%w: %d times", errCopy, len(rows))
	}
	var take []Rows
	for i := range rows {
		e := &rows[i]
		theirs, err := e.check(r, rng)
		if err != nil {
			return 0, fmt.Errorf("history: %s of %s: %w", r.file(e.Start), time.Unix(int64(e.Start), 0).UTC().Format(time.RFC3339), err)
		}
		ours, there, err := a.worthOf(r, rng, e.Start)
		if err != nil {
			return 0, err
		}
		if !there || theirs > ours {
			take = append(take, *e)
		}
	}
	return len(take), a.PutRows(r, take)
}

func (a *Archive) worthOf(r Resolution, rng quota.RangeID, at history.Second) (n int64, there bool, err error) {
	err = a.eachFile(r, at, at+1, func(tx *bbolt.Tx, _, _ history.Second) error {
		b := tx.Bucket(rangeBucket(rng))
		if b == nil {
			return nil
		}
		cover := b.Get(key(at, 0))
		if cover == nil {
			return nil
		}
		there = true
		n, err = worth(r, at, cover)
		return err
	})
	return n, there, err
}

// check returns the worth of the rows, or an error unless range and time match and every row decodes.
func (e *Rows) check(r Resolution, rng quota.RangeID) (int64, error) {
	if e.Range != rng || e.Start < 0 || e.Start%r.Seconds() != 0 {
		return 0, fmt.Errorf("%w: of another range or time", errCopy)
	}
	for i := range e.Of {
		if err := e.Of[i].check(r); err != nil {
			return 0, err
		}
	}
	return worth(r, e.Start, e.Cover)
}

func (x *Row) check(r Resolution) (err error) {
	l := x.Limit
	switch {
	case l.Namespace == "" || l.Limit == "" || len(l.Namespace) > quota.MaxNameLen || len(l.Limit) > quota.MaxNameLen || strings.Contains(l.Namespace, "/"):
		err = fmt.Errorf("%w: of limit %q", errCopy, l)
	case r == Minutes || r == Hours:
		_, err = history.DecodePoint(x.Data)
	default:
		_, err = history.DecodeStored(l, x.Data)
	}
	return err
}

// Room reports whether the archive has space for more data of a resolution: all files use less than
// 90 percent of MaxBytes and, for keys, the files of keys less than 90 percent of their part.
// Otherwise older days would soon have to be removed.
func (a *Archive) Room(r Resolution) bool {
	all, err := a.size("")
	if err != nil || all >= a.cfg.MaxBytes/10*9 {
		return false
	}
	if r == Minutes || r == Hours {
		return true
	}
	keys, err := a.size("keys-")
	return err == nil && keys < a.cfg.MaxBytes/keysPart/10*9
}

// Since returns the start of the retention of a resolution at time now.
func (a *Archive) Since(r Resolution, now history.Second) history.Second {
	if r.long() {
		return now - history.Second(a.cfg.Hours/time.Second)
	}
	return now - history.Second(a.cfg.Minutes/time.Second)
}
