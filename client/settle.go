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
	// maxUnsettled bounds the last reports of earlier attachments that no node has
	// taken yet; beyond it the oldest are dropped.
	maxUnsettled = 16
	// maxSettled and maxSettlement bound one of them, in keys and in bytes: a node
	// takes messages of 4 MiB. entrySize is the most that numbers of a key take.
	maxSettled    = peerproto.MaxEntries
	maxSettlement = 3 << 20
	entrySize     = 160
	// settleAgain and settleLate bound how long an answer is waited for before a
	// settlement is sent again: twice as long each time.
	settleAgain = time.Second
	settleLate  = 30 * time.Second
)

// settlements are the last reports of attachments that broke. Each is repeated, by
// way of whatever node there is, until it is answered.
type settlements struct {
	list []*settlement // oldest first
}

type settlement struct {
	msg   *quoratev1.Settlement
	by    uint64 // attachment that it was sent by last; 0 is none
	again quota.Time
	tries int
}

// add takes over what an attachment leaves behind, in one message, as a node settles
// an attachment once. It returns how many messages and keys were dropped for want of
// room: of keys those go first that have nothing new to tell.
func (s *settlements) add(at *attachment, lasts []quota.Report) (dropped uint64) {
	if len(lasts) == 0 {
		return 0
	}
	all := lasts[len(lasts)-1]
	for _, r := range lasts[:len(lasts)-1] {
		all.Entries = append(all.Entries, r.Entries...)
	}
	if len(all.Entries) == 0 {
		return 0
	}
	slices.SortStableFunc(all.Entries, func(a, b quota.ReportEntry) int { return cmp.Compare(b.Unreported, a.Unreported) })
	size, fit := 0, 0
	for ; fit < len(all.Entries) && fit < maxSettled && size < maxSettlement; fit++ {
		k := &all.Entries[fit].Key
		size += entrySize + len(k.Namespace) + len(k.LimitName.Limit) + len(k.Key)
	}
	dropped = uint64(len(all.Entries) - fit)
	all.Entries = all.Entries[:fit]
	msg := &quoratev1.Settlement{
		Node: string(at.node), NodeIncarnation: uint64(at.life), Attachment: at.number, Report: peerproto.EncodeReport(&all),
	}
	for i := range all.Entries {
		e := &all.Entries[i]
		msg.Acknowledged = append(msg.Acknowledged, int64(e.Used+e.Overdrawn-e.Unreported))
	}
	s.list = append(s.list, &settlement{msg: msg})
	if n := len(s.list) - maxUnsettled; n > 0 {
		s.list = slices.Delete(s.list, 0, n)
		dropped += uint64(n)
	}
	return dropped
}

// answered forgets the report of that attachment.
func (s *settlements) answered(attachment uint64) {
	s.list = slices.DeleteFunc(s.list, func(o *settlement) bool { return o.msg.GetAttachment() == attachment })
}

// next is when one is to be sent by that attachment.
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

// settle sends what is due.
func (m *member) settle(now quota.Time, at *attachment) {
	for _, o := range m.unsettled.list {
		if o.by == at.number && now < o.again {
			continue
		}
		if o.by != at.number {
			o.tries = 0
		}
		o.by, o.again = at.number, now.Add(min(settleAgain<<min(o.tries, 10), settleLate))
		o.tries++
		if !at.send(&quoratev1.AttachRequest{Body: &quoratev1.AttachRequest_Settlement{Settlement: o.msg}}) {
			o.again = now.Add(settleAgain / 10)
		}
	}
}

// part begins to close: what is open is parted with, and told to the node, or to
// the next one if there is none.
func (m *member) part(now quota.Time) {
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
	m.parting = lasts
	m.send(now, at, lasts)
}

// heardLast notes that a grant answers one of the last reports.
func (m *member) heardLast(g *quota.Grant) {
	if len(m.parting) == 0 || len(g.Entries) == 0 {
		return
	}
	m.parting = slices.DeleteFunc(m.parting, func(l quota.Report) bool { return l.Seq == g.Entries[0].Ack })
}

// finished reports whether there is nothing left to tell, or to wait for. The
// stream is ended in good order: then all that was sent has arrived.
func (m *member) finished(now quota.Time) bool {
	if now >= m.deadline {
		return true
	}
	if len(m.unsettled.list) > 0 {
		return false
	}
	at := m.attached.Load()
	if at == nil {
		return len(m.parting) == 0
	}
	at.shutSend()
	return len(m.parting) == 0
}

// leave ends what there is of attachments.
func (m *member) leave() {
	if n := len(m.unsettled.list) + len(m.parting); n > 0 {
		m.stats.dropped.Add(uint64(n))
	}
	for _, at := range []*attachment{m.trying, m.attached.Load()} {
		if at != nil {
			at.end()
		}
	}
	m.attached.Store(nil)
	m.wait.notifyAll()
}
