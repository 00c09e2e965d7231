package client

import (
	"cmp"
	"slices"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
)

const (
	// maxUnsettled bounds the sessions that are not settled yet; beyond it the oldest are
	// dropped.
	maxUnsettled = 16
	// maxLastKeys and maxLast bound the keys of one settlement and their bytes, as nodes do. Beyond
	// them the keys with the fewest unreported tokens are dropped.
	maxLastKeys = 8 * peerproto.MaxEntries
	maxLast     = 36 << 20
	// maxPart bounds the bytes of one part. Nodes read messages of up to 4 MiB.
	maxPart = 3 << 20
	// settleRetry and settleLate bound how long to wait for an answer before a settlement is
	// repeated. The time doubles with each try.
	settleRetry = time.Second
	settleLate  = 30 * time.Second
)

// settlements are the last reports of broken sessions. Each is repeated, through whatever node
// there is, until it is answered.
type settlements struct {
	list []*settlement // oldest first
}

type settlement struct {
	attachment uint64
	parts      []*quoratev1.Settlement // in this order
	by         uint64                  // session that sent it last, or 0
	again      quota.Time
	tries      int
}

// add adds the last reports of a session. It returns how many sessions and keys were dropped
// for lack of room.
func (s *settlements) add(at *session, lasts []quota.Report) (dropped uint64) {
	lasts, dropped = inParts(lasts)
	if len(lasts) == 0 {
		return dropped
	}
	o := &settlement{attachment: at.number}
	for i := range lasts {
		msg := &quoratev1.Settlement{
			Node: string(at.node), NodeIncarnation: uint64(at.incarnation), Attachment: at.number, Report: peerproto.EncodeReport(&lasts[i]),
			Part: uint32(i + 1), Parts: uint32(len(lasts)),
		}
		for _, e := range lasts[i].Entries {
			msg.Acknowledged = append(msg.Acknowledged, int64(e.Used+e.Overdrawn-e.Unreported))
		}
		o.parts = append(o.parts, msg)
	}
	s.list = append(s.list, o)
	if n := len(s.list) - maxUnsettled; n > 0 {
		s.list = slices.Delete(s.list, 0, n)
		dropped += uint64(n)
	}
	return dropped
}

// inParts prepares last reports for a settlement, in as few parts as possible: with one for each report, those of
// thousands of keys would not fit into the queue. The parts are within a node's bounds, and the last one is Full. Of too
// many entries, it keeps those with the most unreported tokens.
func inParts(lasts []quota.Report) (parts []quota.Report, dropped uint64) {
	var all []quota.ReportEntry
	for i := range lasts {
		all = append(all, lasts[i].Entries...)
	}
	if len(all) == 0 {
		return nil, 0
	}
	slices.SortStableFunc(all, func(a, b quota.ReportEntry) int { return cmp.Compare(b.Unreported, a.Unreported) })
	part, size, bytes := lasts[0], 0, 0
	part.Entries = nil
	for i := range all {
		n := sizeOf(all[i : i+1])
		if i == maxLastKeys || bytes+n > maxLast {
			dropped = uint64(len(all) - i)
			break
		}
		if len(part.Entries) == peerproto.MaxEntries || size+n > maxPart {
			parts = append(parts, part)
			part.Seq, part.Entries, size = part.Seq+1, nil, 0
		}
		part.Entries = append(part.Entries, all[i])
		size, bytes = size+n, bytes+n
	}
	parts = append(parts, part)
	for i := range parts {
		parts[i].Full = i == len(parts)-1
	}
	return parts, dropped
}

func sizeOf(entries []quota.ReportEntry) (bytes int) {
	for i := range entries {
		bytes += quota.EntrySize(entries[i].Key.LimitName, entries[i].Key.Key)
	}
	return bytes
}

// answered removes the settlement of a session.
func (s *settlements) answered(attachment uint64) {
	s.list = slices.DeleteFunc(s.list, func(o *settlement) bool { return o.attachment == attachment })
}

// next returns when the given session should send a settlement.
func (s *settlements) next(by uint64) quota.Time {
	at := quota.Time(1<<63 - 1)
	for _, o := range s.list {
		if o.by == by {
			at = min(at, o.again)
		} else {
			at = 0
		}
	}
	return at
}

// settle sends the settlements that are due.
func (m *member) settle(now quota.Time, at *session) {
	for _, o := range m.unsettled.list {
		if o.by == at.number && now < o.again {
			continue
		}
		if o.by != at.number {
			o.tries = 0
		}
		o.by, o.again = at.number, now.Add(min(settleRetry<<min(o.tries, 10), settleLate))
		o.tries++
		for _, p := range o.parts {
			if !at.send(&quoratev1.AttachRequest{Body: &quoratev1.AttachRequest_Settlement{Settlement: p}}) {
				o.again = now.Add(settleRetry / 10) // all of it, from the first
				break
			}
		}
	}
}

// startClose starts to close: it closes all keys and reports them to the node, or to the next one if
// that is lost.
func (m *member) startClose(now quota.Time) {
	m.closing, m.deadline = true, now.Add(m.opts.timeout)
	agg := m.agg.Load()
	if agg == nil {
		return
	}
	lasts := agg.Leave(now, 0)
	at := m.attached.Load()
	if at == nil {
		m.stats.dropped.Add(m.unsettled.add(m.last, lasts))
		m.retry.at = min(m.retry.at, now)
		return
	}
	m.finalReports, m.unqueued = lasts, slices.Clone(lasts)
	m.sendRefused(at)
}

// acknowledged notes that a grant answers one of the last reports.
func (m *member) acknowledged(g *quota.Grant) {
	if len(m.finalReports) == 0 || len(g.Entries) == 0 {
		return
	}
	m.finalReports = slices.DeleteFunc(m.finalReports, func(l quota.Report) bool { return l.Seq == g.Entries[0].Ack })
}

// finished reports whether there is nothing left to send or to wait for. It ends the stream in
// order, so that everything sent before arrives.
func (m *member) finished(now quota.Time) bool {
	if now >= m.deadline {
		return true
	}
	if len(m.unsettled.list) > 0 {
		return false
	}
	if at := m.attached.Load(); at != nil && len(m.unqueued) == 0 {
		at.closeSend()
	}
	return len(m.finalReports) == 0
}

// leave ends the sessions.
func (m *member) leave() {
	if n := len(m.unsettled.list) + len(m.finalReports); n > 0 {
		m.stats.dropped.Add(uint64(n))
	}
	for _, at := range []*session{m.trying, m.attached.Load()} {
		if at != nil {
			at.end()
		}
	}
	m.attached.Store(nil)
	m.wait.NotifyAll()
}
