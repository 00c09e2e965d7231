package replica

import (
	"maps"
	"slices"
	"sync"
	"unsafe"

	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
)

// The goroutine that reads a connection does not book reports of other members, because the Raft
// messages of all groups use that connection too. Every member has an intake, which one goroutine
// empties while it holds frames. While another goroutine holds a ledger, the reports of that range go to
// its backlog, and those of other ranges are booked. The reports of one member to one range are booked in the order of arrival.

const (
	// maxWaiting bounds, in bytes, the frames of one member that wait to be booked and, separately,
	// its reports in backlogs: as much as a member queues to send. Reports beyond it are dropped, and
	// the member reports again.
	maxWaiting = 32 << 20
	// maxUnpacked bounds the entries unpacked at a time, unless a single message has more.
	maxUnpacked = 4 * peerproto.MaxPacked
)

// intakes holds the intakes of all members, including this node's own.
type intakes struct {
	mu sync.Mutex
	of map[quota.NodeID]*intake
}

func (is *intakes) get(id quota.NodeID) *intake {
	is.mu.Lock()
	defer is.mu.Unlock()
	if is.of == nil {
		is.of = map[quota.NodeID]*intake{}
	}
	in := is.of[id]
	if in == nil {
		in = &intake{}
		is.of[id] = in
	}
	return in
}

// keep forgets the members that are not in the list. What waits of them is still booked.
func (is *intakes) keep(ids []quota.NodeID) {
	is.mu.Lock()
	defer is.mu.Unlock()
	maps.DeleteFunc(is.of, func(id quota.NodeID, _ *intake) bool { return !slices.Contains(ids, id) })
}

// intake holds the reports of one member that wait to be booked.
type intake struct {
	mu     sync.Mutex
	frames [][]byte // packed reports, oldest first
	busy   bool     // a goroutine is booking
	bytes  int      // size of frames, and of those being booked
	copied int      // size of its reports in backlogs
}

// reserve adds bytes to a sum that maxWaiting bounds. It returns false if there is no room. An empty sum
// takes anything, so that maxWaiting need not exceed the maximum size of a frame.
func reserve(sum *int, bytes int) bool {
	if *sum > 0 && *sum+bytes > maxWaiting {
		return false
	}
	*sum += bytes
	return true
}

// reserveCopy reserves room for a report in a backlog, or releases it if bytes is negative. It returns false
// if there is no room.
func (in *intake) reserveCopy(bytes int) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return reserve(&in.copied, bytes)
}

// booked releases the room of booked frames.
func (in *intake) booked(bytes int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.bytes -= bytes
}

// push appends a frame. If start is true, the caller must start the booking goroutine.
func (in *intake) push(f []byte) (start, ok bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !reserve(&in.bytes, len(f)) {
		return false, false
	}
	in.frames = append(in.frames, f)
	start, in.busy = !in.busy, true
	return start, true
}

// next removes and returns the oldest frame. If it returns nil, the intake is empty and the booking
// goroutine must end.
func (in *intake) next() []byte {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.frames) == 0 {
		in.frames, in.busy = nil, false
		return nil
	}
	f := in.frames[0]
	in.frames[0] = nil
	in.frames = in.frames[1:]
	return f
}

// more reports whether another frame is waiting.
func (in *intake) more() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.frames) > 0
}

// OnReports queues a frame of packed reports from another node. It never blocks.
func (s *Set) OnReports(from quota.NodeID, packed []byte) {
	in := s.intakes.get(from)
	start, ok := in.push(packed)
	if !ok {
		s.stats.droppedReports.Inc()
		return
	}
	if start {
		go s.bookIntake(from, in)
	}
}

// batch holds frames that are booked together.
type batch struct {
	buffers []*peerproto.Reports
	reports []*quota.Report
	entries int
	bytes   int
}

// bookIntake books a member's frames until its intake is empty.
func (s *Set) bookIntake(from quota.NodeID, in *intake) {
	var b batch
	for f := in.next(); f != nil; f = in.next() {
		for s.unpack(&b, from, f); b.entries < maxUnpacked && in.more(); {
			s.unpack(&b, from, in.next())
		}
		s.bookBatch(from, in, dropSuperseded(b.reports))
		for _, buf := range b.buffers {
			unpackBuffers.Put(buf)
		}
		in.booked(b.bytes)
		clear(b.buffers)
		clear(b.reports)
		b = batch{buffers: b.buffers[:0], reports: b.reports[:0]}
	}
}

// unpack adds the reports of a frame to the batch.
func (s *Set) unpack(b *batch, from quota.NodeID, packed []byte) {
	b.bytes += len(packed)
	buf := unpackBuffers.Get().(*peerproto.Reports)
	b.buffers = append(b.buffers, buf)
	reports, err := buf.Unpack(from, packed)
	if err != nil {
		s.cfg.Refused.Inc()
		s.log.Debug("reports not read", "peer", from, "err", err)
		return
	}
	for i := range reports {
		b.reports = append(b.reports, &reports[i])
		b.entries += len(reports[i].Entries)
	}
}

// bookBatch books reports of another member, and sends the answers together.
func (s *Set) bookBatch(from quota.NodeID, in *intake, reports []*quota.Report) {
	answers := answerBuffers.Get().(*answerBuffer)
	defer answerBuffers.Put(answers)
	answers.reset()
	out := make([]*quota.Grant, 0, len(reports))
	for _, r := range reports {
		if g, ok := s.book(in, r, answers.alloc(len(r.Entries))); ok {
			out = append(out, &g)
		}
	}
	if len(out) > 0 {
		s.stats.grants.Add(float64(len(out)))
		s.sendGrants(from, out)
	}
}

// BookOwn books a report of this node's own member, like a report of any other. ok is false if the
// answer comes later or never.
func (s *Set) BookOwn(r *quota.Report) (g quota.Grant, ok bool) {
	return s.book(s.intakes.get(s.cfg.Self), r, nil)
}

// book books a report and returns the answer, whose entries are in buf if it has the capacity. If the ledger is
// busy, book puts the report into the backlog of its range and returns ok false; the answer comes later.
func (s *Set) book(in *intake, report *quota.Report, buf []quota.GrantEntry) (g quota.Grant, ok bool) {
	r := s.Of(report.Range)
	if r == nil {
		return g, false
	}
	if !r.backlog.waits() && r.mu.TryLock() {
		return r.reportLocked(report, buf)
	}
	if !in.reserveCopy(reportBytes(report)) {
		s.stats.droppedReports.Inc()
		return g, false
	}
	if r.backlog.push(in, copyOf(report)) {
		go r.bookBacklog()
	}
	return g, false
}

// unpackBuffers pools memory for received reports.
var unpackBuffers = sync.Pool{New: func() any { return &peerproto.Reports{} }}

// answerBuffers pools memory for answers.
var answerBuffers = sync.Pool{New: func() any { return &answerBuffer{} }}

// answerBuffer is memory for the entries of all answers to one message.
type answerBuffer struct{ entries []quota.GrantEntry }

// alloc returns an empty slice with capacity for n entries, valid until the next reset.
func (r *answerBuffer) alloc(n int) []quota.GrantEntry {
	from := len(r.entries)
	if cap(r.entries)-from < n { // earlier allocations keep the old memory
		r.entries, from = make([]quota.GrantEntry, 0, max(n, min(2*cap(r.entries), peerproto.MaxPacked))), 0
	}
	r.entries = r.entries[:from+n]
	return r.entries[from : from : from+n]
}

func (r *answerBuffer) reset() { r.entries = r.entries[:0] }

// reportBytes returns the approximate size of a copied report, in bytes.
func reportBytes(r *quota.Report) int {
	size := len(r.Entries) * int(unsafe.Sizeof(quota.ReportEntry{}))
	for i := range r.Entries {
		e := &r.Entries[i]
		size += len(e.Key.Key) + len(e.Cancelled)*int(unsafe.Sizeof(quota.Seq(0)))
		if e.Learn != nil {
			size += int(unsafe.Sizeof(*e.Learn))
		}
	}
	return size
}

// copyOf returns a copy of a report with its own entries, because the memory of r's entries is reused.
func copyOf(r *quota.Report) *quota.Report {
	own := *r
	own.Entries = append([]quota.ReportEntry(nil), r.Entries...)
	return &own
}

// backlog holds the reports to one range that arrived while its ledger was locked.
type backlog struct {
	mu      sync.Mutex
	reports []waiting // oldest first
	busy    bool      // a goroutine is booking; new reports must wait for it
}

type waiting struct {
	report *quota.Report
	in     *intake // the member's intake, which counts the report's bytes
}

// waits reports whether reports are waiting or being booked.
func (b *backlog) waits() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.busy
}

// push appends a report. If start is true, the caller must start the booking goroutine.
func (b *backlog) push(in *intake, r *quota.Report) (start bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reports = append(b.reports, waiting{r, in})
	start, b.busy = !b.busy, true
	return start
}

// drain removes and returns all waiting reports. If it returns nil, the backlog is empty and the booking
// goroutine must end.
func (b *backlog) drain() []waiting {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.reports
	b.reports, b.busy = nil, len(all) > 0
	return all
}

// bookBacklog books the waiting reports of the range when its ledger is free.
func (r *Replica) bookBacklog() {
	for all := r.backlog.drain(); all != nil; all = r.backlog.drain() {
		reports := make([]*quota.Report, len(all))
		for i := range all {
			reports[i] = all[i].report
		}
		var grants []quota.Grant
		for _, in := range dropSuperseded(reports) {
			if g, ok := r.report(in, nil); ok {
				grants = append(grants, g)
			}
		}
		for i := range all {
			all[i].in.reserveCopy(-reportBytes(all[i].report))
		}
		r.set.deliver(grants)
	}
}

// dropSuperseded drops the reports that a later complete list of the same member makes redundant. A member
// sends such a list again to a new leader that does not answer in time; reading all copies would delay
// a late leader even more. The remaining reports keep their order, in the same memory. Whatever only a
// dropped report said is reported again, as if that report had been lost.
func dropSuperseded(reports []*quota.Report) []*quota.Report {
	var lists map[reporter]*fullList
	for i := len(reports) - 1; i >= 0; i-- {
		r := reports[i]
		from := reporter{r.From, r.Range}
		l := lists[from]
		switch {
		case l != nil && l.whole():
			if r.Incarnation == l.first.Incarnation { // a process repeats only its own reports
				reports[i] = nil
			}
		case r.Full:
			if lists == nil {
				lists = map[reporter]*fullList{}
			}
			lists[from] = &fullList{first: r, missing: max(r.Parts, 1) - 1}
		case l != nil && !l.precede(r):
			delete(lists, from)
		}
	}
	if lists == nil {
		return reports
	}
	out := reports[:0]
	for _, r := range reports {
		if r != nil {
			out = append(out, r)
		}
	}
	return out
}

// reporter identifies the reports of one member to one range.
type reporter struct {
	from quota.NodeID
	to   quota.RangeID
}

// fullList is the reports that make up one complete list of a member, read from the last one back.
type fullList struct {
	first   *quota.Report // the earliest report seen so far
	missing uint32        // number of reports before first
}

func (l *fullList) whole() bool { return l.missing == 0 }

// precede adds r in front of the earliest report. It returns false if r is not part of the list.
func (l *fullList) precede(r *quota.Report) bool {
	if r.Seq != l.first.Seq-1 || r.Term != l.first.Term || r.Incarnation != l.first.Incarnation {
		return false
	}
	l.first, l.missing = r, l.missing-1
	return true
}
