package replica

import (
	"sync"
	"unsafe"

	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
)

// Reports of other members are not booked by the goroutine that reads the connection, which
// Raft of all groups uses too. Every member has an intake, which one goroutine empties while
// there is something in it. Where somebody else has the ledger of a range for long (Sweep,
// MemberGone and SetLimits look at every key), the reports of that range go to its backlog, and
// those of other ranges are booked meanwhile. The reports of one member to one range are
// booked in the order in which they came.

const (
	// maxWaiting bounds, in bytes, the frames of one member that wait to be booked, and its
	// reports in backlogs likewise: as much as a member queues to send. What has no room is
	// dropped, and the member reports it again.
	maxWaiting = 32 << 20
	// maxUnpacked is how many entries are unpacked at a time, if no message alone has more.
	maxUnpacked = 4 * peerproto.MaxPacked
)

// intakes are the intakes of all members, this node's own among them.
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

// intake holds the reports of one member that wait to be booked.
type intake struct {
	mu     sync.Mutex
	frames [][]byte // of reports, packed, oldest first
	busy   bool     // a goroutine books them
	bytes  int      // of frames, and of those being booked
	copied int      // bytes of its reports in backlogs
}

// fits adds bytes to a sum that maxWaiting bounds; false if there is no room. With nothing there is
// room for everything, so that the bound needs no relation to that of a frame.
func fits(sum *int, bytes int) bool {
	if *sum > 0 && *sum+bytes > maxWaiting {
		return false
	}
	*sum += bytes
	return true
}

// copies takes room for a report in a backlog, or gives it back if bytes is below 0; false if
// there is none.
func (in *intake) copies(bytes int) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return fits(&in.copied, bytes)
}

// booked gives back the room of frames.
func (in *intake) booked(bytes int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.bytes -= bytes
}

// push appends a frame. start says that the caller has to start the goroutine that books.
func (in *intake) push(f []byte) (start, ok bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !fits(&in.bytes, len(f)) {
		return false, false
	}
	in.frames = append(in.frames, f)
	start, in.busy = !in.busy, true
	return start, true
}

// next returns the oldest frame; nil, after which the goroutine that books has to end, if
// there is none.
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

// more reports whether another frame waits.
func (in *intake) more() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.frames) > 0
}

// OnReports queues a frame of packed reports of another node to be booked. It never waits.
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

// batch is frames that are booked together.
type batch struct {
	rooms   []*peerproto.Reports
	reports []*quota.Report
	entries int
	bytes   int
}

// bookIntake books what is in a member's intake until that is empty.
func (s *Set) bookIntake(from quota.NodeID, in *intake) {
	var b batch
	for f := in.next(); f != nil; f = in.next() {
		for s.unpack(&b, from, f); b.entries < maxUnpacked && in.more(); {
			s.unpack(&b, from, in.next())
		}
		s.bookBatch(from, in, newest(b.reports))
		for _, room := range b.rooms {
			unpackRoom.Put(room)
		}
		in.booked(b.bytes)
		clear(b.rooms)
		clear(b.reports)
		b = batch{rooms: b.rooms[:0], reports: b.reports[:0]}
	}
}

// unpack adds the reports of a frame to the batch.
func (s *Set) unpack(b *batch, from quota.NodeID, packed []byte) {
	b.bytes += len(packed)
	room := unpackRoom.Get().(*peerproto.Reports)
	b.rooms = append(b.rooms, room)
	reports, err := room.Unpack(from, packed)
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
	answers := answerRooms.Get().(*answerRoom)
	defer answerRooms.Put(answers)
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

// BookOwn books a report of this node's own member, as a report of another one; ok is false if it is
// answered later, or not at all.
func (s *Set) BookOwn(r *quota.Report) (g quota.Grant, ok bool) {
	return s.book(s.intakes.get(s.cfg.Self), r, nil)
}

// book books a report, or puts it into the backlog of its range: then ok is false, and it is
// answered later. The entries of the answer are in room, as far as that is enough.
func (s *Set) book(in *intake, report *quota.Report, room []quota.GrantEntry) (g quota.Grant, ok bool) {
	r := s.Of(report.Range)
	if r == nil {
		return g, false
	}
	if !r.backlog.waits() && r.mu.TryLock() {
		return r.reportLocked(report, room)
	}
	if !in.copies(reportBytes(report)) {
		s.stats.droppedReports.Inc()
		return g, false
	}
	if r.backlog.push(in, copyOf(report)) {
		go r.bookBacklog()
	}
	return g, false
}

// unpackRoom is room for reports that came, one for each goroutine that reads some.
var unpackRoom = sync.Pool{New: func() any { return &peerproto.Reports{} }}

// answerRooms is room for answers, one for each goroutine that makes some.
var answerRooms = sync.Pool{New: func() any { return &answerRoom{} }}

// answerRoom is room for the entries of all answers to one message.
type answerRoom struct{ entries []quota.GrantEntry }

// alloc returns room for n entries, until the next reset.
func (r *answerRoom) alloc(n int) []quota.GrantEntry {
	from := len(r.entries)
	if cap(r.entries)-from < n { // what has been taken stays where it is
		r.entries, from = make([]quota.GrantEntry, 0, max(n, min(2*cap(r.entries), peerproto.MaxPacked))), 0
	}
	r.entries = r.entries[:from+n]
	return r.entries[from : from : from+n]
}

func (r *answerRoom) reset() { r.entries = r.entries[:0] }

// reportBytes is what a copy of a report takes, about.
func reportBytes(r *quota.Report) int {
	size := len(r.Entries) * int(unsafe.Sizeof(quota.ReportEntry{}))
	for i := range r.Entries {
		e := &r.Entries[i]
		size += len(e.Key.Key) + len(e.Abandoned)*int(unsafe.Sizeof(quota.Seq(0)))
		if e.Learn != nil {
			size += int(unsafe.Sizeof(*e.Learn))
		}
	}
	return size
}

// copyOf returns a report whose entries are its own: those of r are in memory that is used again.
func copyOf(r *quota.Report) *quota.Report {
	own := *r
	own.Entries = append([]quota.ReportEntry(nil), r.Entries...)
	return &own
}

// backlog is the reports to one range that came while somebody had its ledger.
type backlog struct {
	mu      sync.Mutex
	reports []waiting // oldest first
	busy    bool      // a goroutine books them: what comes now has to wait for it
}

type waiting struct {
	report *quota.Report
	in     *intake // of the member, where its bytes count
}

// waits reports whether reports wait, or are being booked.
func (b *backlog) waits() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.busy
}

// push appends a report. start says that the caller has to start the goroutine that books.
func (b *backlog) push(in *intake, r *quota.Report) (start bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reports = append(b.reports, waiting{r, in})
	start, b.busy = !b.busy, true
	return start
}

// drain returns all that waits; nil, after which the goroutine that books has to end, if there
// is nothing.
func (b *backlog) drain() []waiting {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.reports
	b.reports, b.busy = nil, len(all) > 0
	return all
}

// bookBacklog books what waits for the range, as soon as its ledger is free.
func (r *Replica) bookBacklog() {
	for all := r.backlog.drain(); all != nil; all = r.backlog.drain() {
		reports := make([]*quota.Report, len(all))
		for i := range all {
			reports[i] = all[i].report
		}
		var grants []quota.Grant
		for _, in := range newest(reports) {
			if g, ok := r.report(in, nil); ok {
				grants = append(grants, g)
			}
		}
		for i := range all {
			all[i].in.copies(-reportBytes(all[i].report))
		}
		r.set.deliver(grants)
	}
}

// newest leaves out the reports of which a later list of everything in reports says all again:
// a member repeats that list to a new leader which does not answer in time, and a leader that is late
// would only get later by reading all of them. The others stay in order, in the same memory. What such
// a report alone has said is reported again, as if it had been lost.
func newest(reports []*quota.Report) []*quota.Report {
	var lists map[reporter]*list
	for i := len(reports) - 1; i >= 0; i-- {
		r := reports[i]
		from := reporter{r.From, r.Range}
		l := lists[from]
		switch {
		case l != nil && l.whole():
			if r.Incarnation == l.first.Incarnation { // nobody repeats what another process has said
				reports[i] = nil
			}
		case r.Full:
			if lists == nil {
				lists = map[reporter]*list{}
			}
			lists[from] = &list{first: r, missing: max(r.Parts, 1) - 1}
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

// reporter is who reports to which range.
type reporter struct {
	from quota.NodeID
	to   quota.RangeID
}

// list is the reports of a list of everything, seen from its end.
type list struct {
	first   *quota.Report // the earliest that was seen
	missing uint32        // so many belong before it
}

func (l *list) whole() bool { return l.missing == 0 }

// precede takes the report before the earliest one; false if it is another.
func (l *list) precede(r *quota.Report) bool {
	if r.Seq != l.first.Seq-1 || r.Term != l.first.Term || r.Incarnation != l.first.Incarnation {
		return false
	}
	l.first, l.missing = r, l.missing-1
	return true
}
