package recorder

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/backoff"
	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/history/archive"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/snapshotio"
)

// Intervals and bounds of what replicas fetch from each other.
const (
	backfillEvery = 20 * time.Second
	backfillRetry = 2 * time.Hour // until other replicas are asked again, for data that is now old enough or that they lacked
	backfillPause = 50 * time.Millisecond
	backfillBytes = 256 << 10 // per answer, unless a single time has more
	BackfillHoles = 64        // per turn, of a range and resolution
)

// Backfill fetches what other replicas of a range have on their disks and this one lacks, because it is
// new or was away for longer than logs reach back. The holes on disk record the progress, so a backfill
// resumes after any interruption.
type Backfill struct {
	Service  *Recorder
	Progress map[BackfillSource]BackfillProgress
}

// BackfillSource is another replica, and what it is asked for.
type BackfillSource struct {
	Range      quota.RangeID
	Resolution archive.Resolution
	From       quota.NodeID
}

// BackfillProgress is the progress with one source.
type BackfillProgress struct {
	Complete time.Time      // when all that was missing had been requested; zero if more remains
	before   history.Second // nothing older has been requested yet; 0 if nothing has been requested at all
}

// run fills holes once per backfillEvery.
func (f *Backfill) run() {
	s := f.Service
	if s.Files.Archive == nil {
		return
	}
	tick := time.NewTicker(backfillEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		f.Round(s.ctx, Second(s.node.Now()))
	}
}

// Round fills the holes of all ranges that have a replica on this node.
func (f *Backfill) Round(ctx context.Context, now history.Second) {
	s := f.Service
	for r := range quota.RangeID(s.cfg.Ranges) {
		var others []quota.NodeID
		if s.node.Open(r) && s.node.Leader(r) != "" {
			others = s.node.Voters(r)
		}
		maps.DeleteFunc(f.Progress, func(of BackfillSource, _ BackfillProgress) bool {
			return of.Range == r && !slices.Contains(others, of.From)
		})
		for _, id := range others {
			for _, res := range archive.Resolutions {
				of := BackfillSource{r, res, id}
				if at := f.Progress[of].Complete; id == s.cfg.Self.Node || !s.node.Up(id) || !at.IsZero() && time.Since(at) < backfillRetry || !s.Files.Archive.Room(res) {
					continue
				}
				if err := f.fill(ctx, of, now); err != nil {
					s.log.Info("history: data of other replicas has not been fetched yet", "range", r, "from", id, "err", err)
				}
				if ctx.Err() != nil {
					return
				}
			}
		}
	}
}

// fill asks a replica for what is missing here, newest first. What that replica lacks too stays missing,
// so the next round continues with older holes than this round requested.
func (f *Backfill) fill(ctx context.Context, of BackfillSource, now history.Second) error {
	s, end := f.Service, now-2*Hour // younger data is in the logs' state, and gets stored from there
	if at := f.Progress[of].before; at > 0 {
		end = min(end, at)
	}
	holes, err := s.Files.Archive.Holes(of.Resolution, of.Range, s.Files.Archive.Since(of.Resolution, now), end)
	if err != nil {
		return err
	}
	slices.Reverse(holes)
	kept := 0
	for _, h := range holes[:min(len(holes), BackfillHoles)] {
		got, err := f.fetch(ctx, of, h)
		kept += got
		if err != nil {
			return err
		}
	}
	if kept > 0 {
		s.log.Info("history: fetched from other replicas", "range", of.Range, "from", of.From, "resolution", of.Resolution.Seconds(), "times", kept)
	}
	if len(holes) > BackfillHoles {
		f.Progress[of] = BackfillProgress{before: holes[BackfillHoles-1].From}
	} else {
		f.Progress[of] = BackfillProgress{Complete: time.Now()}
	}
	return nil
}

// fetch fetches what a replica has of a hole, part by part.
func (f *Backfill) fetch(ctx context.Context, of BackfillSource, h history.Gap) (kept int, err error) {
	s := f.Service
	for h.From > 0 && h.From < h.End && s.node.Open(of.Range) {
		rows, next, err := s.fetchStored(ctx, of, h)
		if err != nil {
			return kept, err
		}
		got, err := s.Files.Archive.Fill(of.Resolution, of.Range, rows)
		if kept += got; err != nil {
			return kept, err
		}
		if next != 0 && next <= h.From {
			return kept, fmt.Errorf("%w: it does not continue from %d", errCopied, h.From)
		}
		if h.From = next; next == 0 {
			break
		}
		if err := backoff.Sleep(ctx, backfillPause); err != nil {
			return kept, err
		}
	}
	return kept, nil
}

var errCopied = errors.New("invalid answer")

// fetchStored fetches one part of what a replica has on its disk.
func (s *Recorder) fetchStored(ctx context.Context, of BackfillSource, h history.Gap) (out []archive.Rows, next history.Second, err error) {
	res, err := s.readHistoryOf(ctx, of.From, &peerv1.CallHistoryRead{Query: &peerv1.CallHistoryRead_Stored{Stored: &peerv1.HistoryStored{
		Range: uint32(of.Range), Resolution: uint32(of.Resolution), From: int64(h.From), End: int64(h.End),
	}}})
	if err != nil {
		return nil, 0, err
	}
	sum := uint32(0)
	for _, data := range res.GetRows() {
		sum = crc32.Update(sum, castagnoli, data)
		var m peerv1.HistoryRows
		if err := proto.Unmarshal(data, &m); err != nil {
			return nil, 0, fmt.Errorf("%w: %w", errCopied, err)
		}
		rows := archive.Rows{Range: of.Range, Start: history.Second(m.Start), Cover: m.Cover}
		if rows.Start < h.From || rows.Start >= h.End {
			return nil, 0, fmt.Errorf("%w: second %d; must be %d to %d", errCopied, m.Start, h.From, h.End)
		}
		for _, x := range m.Rows {
			rows.Of = append(rows.Of, archive.Row{Limit: quota.LimitName{Namespace: x.Namespace, Limit: x.Limit}, Data: x.Data})
		}
		out = append(out, rows)
	}
	if sum != res.GetRowsCrc() {
		return nil, 0, fmt.Errorf("%w: its checksum is %08x; must be %08x", errCopied, sum, res.GetRowsCrc())
	}
	return out, history.Second(res.GetNext()), nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// onStored answers fetchStored from this node's disk.
func (s *Recorder) onStored(q *peerv1.HistoryStored) (*peerv1.CallHistoryReadResult, error) {
	of := BackfillSource{Range: quota.RangeID(q.Range), Resolution: archive.Resolution(min(q.Resolution, 255))}
	if !slices.Contains(archive.Resolutions, of.Resolution) || s.Files.Archive == nil || !s.node.Open(of.Range) {
		return nil, errNoReplica
	}
	if err := checkTimeRange(history.Second(q.From), history.Second(q.End)); err != nil {
		return nil, err
	}
	now := Second(s.node.Now())
	from, end := max(history.Second(q.From), s.Files.Archive.Since(of.Resolution, now)), min(history.Second(q.End), now)
	rows, next, err := s.Files.Archive.Rows(of.Resolution, of.Range, from, end, backfillBytes)
	if err != nil {
		return nil, err
	}
	out := &peerv1.CallHistoryReadResult{Ranges: []uint32{q.Range}, Next: int64(next)}
	for i := range rows {
		m := &peerv1.HistoryRows{Start: int64(rows[i].Start), Cover: rows[i].Cover}
		for _, x := range rows[i].Of {
			m.Rows = append(m.Rows, &peerv1.HistoryRow{Namespace: x.Limit.Namespace, Limit: x.Limit.Limit, Data: x.Data})
		}
		data := snapshotio.Encode(m)
		out.Rows, out.RowsCrc = append(out.Rows, data), crc32.Update(out.RowsCrc, castagnoli, data)
	}
	return out, nil
}
