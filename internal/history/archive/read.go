package archive

import (
	"encoding/binary"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/quota"
)

// Read calls yield with a limit's points in [from, end), oldest first, until yield returns
// false. A time with coverage but without demand yields a point of zeros. A time without
// coverage yields no point.
func (a *Archive) Read(r Resolution, rng quota.RangeID, limit quota.LimitName, from, end history.Second, yield func(history.Point) bool) error {
	going := true
	for at := from; at < end && going; at = next(r, at) {
		err := a.view(r.file(at), func(tx *bbolt.Tx) error {
			return readFile(tx, r, rng, limit, max(from, at), min(end, next(r, at)), func(p history.Point) bool {
				going = yield(p)
				return going
			})
		})
		if err != nil {
			return fmt.Errorf("history: read %s: %w", r.file(at), err)
		}
	}
	return nil
}

// next returns the start of the file after the one that contains at.
func next(r Resolution, at history.Second) history.Second {
	t := time.Unix(int64(at), 0).UTC()
	if r.long() {
		return history.Second(time.Date(t.Year(), t.Month()+1, 1, 0, 0, 0, 0, time.UTC).Unix())
	}
	return history.Second(time.Date(t.Year(), t.Month(), t.Day()+1, 0, 0, 0, 0, time.UTC).Unix())
}

func readFile(tx *bbolt.Tx, r Resolution, rng quota.RangeID, limit quota.LimitName, from, end history.Second, yield func(history.Point) bool) error {
	b, limits := tx.Bucket(rangeBucket(rng)), tx.Bucket(bucketLimits)
	if b == nil || limits == nil {
		return nil
	}
	number := limits.Get([]byte(limit.String()))
	c := b.Cursor()
	step := r.Seconds()
	for at := from - from%step; at < end; {
		k, v := c.Seek(key(at, 0))
		if k == nil {
			return nil
		}
		if there := startOf(k); there != at || limitOf(k) != 0 {
			if at = there; limitOf(k) != 0 {
				at = there + step
			}
			continue
		}
		p, err := readPoint(b, number, at, step, v)
		if err != nil {
			return fmt.Errorf("%s: %w", time.Unix(int64(at), 0).UTC().Format(time.RFC3339), err)
		}
		if at >= from && !yield(p) {
			return nil
		}
		at += step
	}
	return nil
}

func startOf(k []byte) history.Second { return history.Second(binary.BigEndian.Uint32(k)) * 60 }
func limitOf(k []byte) uint32         { return binary.BigEndian.Uint32(k[4:]) }

func readPoint(b *bbolt.Bucket, number []byte, at, step history.Second, coverage []byte) (history.Point, error) {
	cover, err := decodeCoverage(coverage)
	if err != nil {
		return history.Point{}, err
	}
	p := history.Point{}
	if number != nil {
		if v := b.Get(key(at, binary.BigEndian.Uint32(number))); v != nil {
			if p, err = history.DecodePoint(v); err != nil {
				return p, err
			}
		}
	}
	p.Start, p.Seconds, p.Complete, p.Missing = at, int(step), cover.Complete, cover.Missing
	return p, nil
}

// Limits returns the limits of a range that had demand in [from, end).
func (a *Archive) Limits(r Resolution, rng quota.RangeID, from, end history.Second) (map[quota.LimitName]bool, error) {
	out := map[quota.LimitName]bool{}
	for at := from; at < end; at = next(r, at) {
		if err := a.view(r.file(at), func(tx *bbolt.Tx) error { return limitsIn(tx, rng, from, end, out) }); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func limitsIn(tx *bbolt.Tx, rng quota.RangeID, from, end history.Second, out map[quota.LimitName]bool) error {
	b, names := tx.Bucket(rangeBucket(rng)), tx.Bucket(bucketNames)
	if b == nil || names == nil {
		return nil
	}
	c, seen := b.Cursor(), map[uint32]bool{0: true}
	for k, _ := c.Seek(key(from, 0)); k != nil && startOf(k) < end; k, _ = c.Next() {
		if n := limitOf(k); !seen[n] {
			seen[n] = true
			l, err := nameOf(names, k[4:])
			if err != nil {
				return err
			}
			out[l] = true
		}
	}
	return nil
}
