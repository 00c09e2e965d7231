package backup

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/quorate/quorate/cluster/control"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/internal/quota"
)

// Content describes the content of a backup.
type Content struct {
	Manifest
	Meta   control.Content
	Ranges []RangeContent
}

// RangeContent counts the content of a range's snapshot.
type RangeContent struct {
	Levels       int // keys whose level is not full
	Accounts     int
	Requests     int // request ids
	Transactions int // in progress
}

// Inspect reads a whole backup. It verifies the checksums, and decodes the content as a node
// that starts from it would. It needs memory for the largest range. It calls progress with
// the number of bytes read so far. Errors contain the place and the reason.
func Inspect(r io.Reader, progress func(bytes int64)) (*Content, error) {
	in, err := NewReader(r)
	if err != nil {
		return nil, err
	}
	if level := in.Head().Level; level > membership.Level {
		return nil, fmt.Errorf("the backup is of a cluster of feature level %d, made by version %s; this version of quorate reads up to level %d: use a newer one", level, in.Head().Software, membership.Level)
	}
	out := &Content{}
	for {
		g, err := in.Next()
		if errors.Is(err, io.EOF) {
			out.Manifest = *in.Manifest()
			progress(in.Offset())
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		progress(in.Offset())
		if err := out.add(g.Name, in); err != nil {
			if _, damaged := io.Copy(io.Discard, in); damaged != nil { // says more than a decoder's error on a damaged file
				return nil, damaged
			}
			return nil, fmt.Errorf("%s, before byte %d: the checksums fit, but the content cannot be read: %w", g.Name, in.Offset(), err)
		}
	}
}

// add decodes a group.
func (c *Content) add(name string, r io.Reader) error {
	if name == raftgroup.GroupName(raftgroup.MetaGroup) {
		m := control.NewMachine(func(*quota.Limits) {}, func([]quota.Key) {})
		if err := decodeAll(m, r); err != nil {
			return err
		}
		c.Meta = m.Content()
		return nil
	}
	f := replica.NewMachine(func() time.Duration { return 0 })
	if err := decodeAll(f, r); err != nil {
		return err
	}
	s := f.Accounts.Stats()
	c.Ranges = append(c.Ranges, RangeContent{Levels: len(f.Levels()), Accounts: s.Accounts, Requests: s.Requests, Transactions: s.Transactions})
	return nil
}

// decodeAll restores m from a snapshot, and reads its group to the end, which verifies it.
func decodeAll(m interface{ Restore(r io.Reader) error }, r io.Reader) error {
	if err := m.Restore(r); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, r)
	return err
}
