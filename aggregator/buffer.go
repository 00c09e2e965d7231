package aggregator

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// Buffer is reusable memory for the reports of successive calls of CollectInto. The zero value is ready for use. It
// keeps at most maxBuffer lists; keys of a report stay in memory until the next use.
type Buffer struct {
	reports []quota.Report
	lines   []lines // by range
	spare   [][]quota.ReportEntry
}

// maxBuffer bounds the lists of entries that a Buffer keeps, of maxEntries each at most.
const maxBuffer = 64

// lines holds the lines of a range's report in progress.
type lines struct {
	begun   bool
	entries []quota.ReportEntry
	bytes   int
	sent    *sentReport
}

// reset takes back the memory of the last reports.
func (buf *Buffer) reset(ranges int) {
	for i := range buf.reports {
		if e := buf.reports[i].Entries; cap(e) > 0 && len(buf.spare) < maxBuffer {
			buf.spare = append(buf.spare, e[:0])
		}
	}
	clear(buf.reports)
	buf.reports = buf.reports[:0]
	if len(buf.lines) != ranges {
		buf.lines = make([]lines, ranges)
	}
}

func (buf *Buffer) takeEntries() []quota.ReportEntry {
	last := len(buf.spare) - 1
	if last < 0 {
		return nil
	}
	e := buf.spare[last]
	buf.spare[last], buf.spare = nil, buf.spare[:last]
	return e
}

// addLine adds a line for a key to the report of its range in progress, and begins one if necessary; rt.seq is the
// report's number.
func (a *Aggregator) addLine(now quota.Time, b *bucket, buf *Buffer) *quota.ReportEntry {
	l := &buf.lines[b.rng]
	bytes := quota.EntrySize(b.entry.name, b.key)
	if len(l.entries) == a.cfg.MaxEntries || l.bytes+bytes > maxReport {
		a.finish(now, b.rng, buf, 0)
	}
	if !l.begun {
		a.begin(now, b.rng, buf)
	}
	l.bytes += bytes
	a.ranges[b.rng].sent.add(l.sent, sentLine{b, b.epoch})
	n := len(l.entries)
	if n == cap(l.entries) {
		l.entries = append(l.entries, quota.ReportEntry{})
	} else {
		l.entries = l.entries[:n+1]
	}
	return &l.entries[n]
}

func (a *Aggregator) begin(now quota.Time, r quota.RangeID, buf *Buffer) {
	rt, l := &a.ranges[r], &buf.lines[r]
	rt.seq++
	*l = lines{begun: true, entries: buf.takeEntries(), sent: rt.sent.begin(now, rt.seq, &a.spare)}
}

// finish ends the report of a range in progress. If first is not 0, it begins one if necessary, and marks the reports
// from first to this one as a full report.
func (a *Aggregator) finish(now quota.Time, r quota.RangeID, buf *Buffer, first quota.Seq) {
	rt, l := &a.ranges[r], &buf.lines[r]
	if !l.begun {
		a.begin(now, r, buf)
	}
	parts := quota.Seq(0)
	if first != 0 {
		parts = rt.seq - first + 1
	}
	buf.reports = append(buf.reports, quota.Report{
		Range: r, Term: rt.term, From: a.cfg.Self, Incarnation: a.cfg.Incarnation, Seq: rt.seq,
		Full: first != 0, Parts: uint32(parts), Age: a.accounted(now, rt), Entries: l.entries,
	})
	*l = lines{}
	if rt.asked == 0 {
		rt.asked = now
	}
}

// accounted returns the time up to now for which the leader knows this node's use of the range, or receives it from
// this process.
func (a *Aggregator) accounted(now quota.Time, rt *route) time.Duration {
	age := now.Sub(a.born)
	if len(rt.recovered.list) > 0 {
		return age
	}
	return age + a.cfg.Known
}
