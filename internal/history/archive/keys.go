package archive

import (
	"encoding/binary"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/quota"
)

// KeysEntry holds the lists of a range's keys for one minute or hour.
type KeysEntry struct {
	Range quota.RangeID
	Start history.Second
	history.KeysSpan
	Lists []history.TopKeys
}

// PutKeys stores entries of one resolution of keys, as Put does for points.
func (a *Archive) PutKeys(r Resolution, entries []KeysEntry) error {
	rows := make([]Rows, 0, len(entries))
	for i := range entries {
		e := &entries[i]
		s := Rows{Range: e.Range, Start: e.Start, Cover: e.KeysSpan.Append(nil)}
		for j := range e.Lists {
			s.Of = append(s.Of, Row{e.Lists[j].Limit, e.Lists[j].AppendStored(nil)})
		}
		rows = append(rows, s)
	}
	return a.PutRows(r, rows)
}

// ReadKeys calls yield with the keys of a limit for each minute or hour in [from, end), oldest first.
// It skips times without data.
func (a *Archive) ReadKeys(r Resolution, rng quota.RangeID, limit quota.LimitName, from, end history.Second, yield func(history.KeysPart)) error {
	for at := from; at < end; at = next(r, at) {
		err := a.view(r.file(at), func(tx *bbolt.Tx) error {
			return readKeys(tx, r, rng, limit, max(from, at), min(end, next(r, at)), yield)
		})
		if err != nil {
			return fmt.Errorf("history: read %s: %w", r.file(at), err)
		}
	}
	return nil
}

func readKeys(tx *bbolt.Tx, r Resolution, rng quota.RangeID, limit quota.LimitName, from, end history.Second, yield func(history.KeysPart)) error {
	b, limits := tx.Bucket(rangeBucket(rng)), tx.Bucket(bucketLimits)
	if b == nil || limits == nil {
		return nil
	}
	number := limits.Get([]byte(limit.String()))
	return eachTime(b, from, end, r.Seconds(), func(at history.Second, cover []byte) error {
		span, err := history.DecodeSpan(cover)
		if err != nil {
			return fmt.Errorf("%s: %w", time.Unix(int64(at), 0).UTC().Format(time.RFC3339), err)
		}
		p := history.KeysPart{Start: at, Seconds: r.Seconds(), KeysSpan: span}
		if number != nil {
			if v := b.Get(key(at, binary.BigEndian.Uint32(number))); v != nil {
				if p.Top, err = history.DecodeStored(limit, v); err != nil {
					return err
				}
			}
		}
		yield(p)
		return nil
	})
}

// eachTime calls f with every time in [from, end) that has data, and its encoded coverage, oldest
// first.
func eachTime(b *bbolt.Bucket, from, end, step history.Second, f func(at history.Second, cover []byte) error) error {
	c := b.Cursor()
	for k, v := c.Seek(key(from, 0)); k != nil && startOf(k) < end; {
		at := startOf(k)
		if limitOf(k) == 0 {
			if err := f(at, v); err != nil {
				return err
			}
		}
		k, v = c.Seek(key(at+step, 0))
	}
	return nil
}
