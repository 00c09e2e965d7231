package client

import (
	"slices"
	"time"

	"github.com/quorate/quorate/aggregator"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
)

const (
	// maxUnsettled bounds the last reports of earlier attachments that no node has
	// taken yet, of at most 4096 keys each; beyond it the oldest are dropped.
	maxUnsettled = 64
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

// add takes over what an attachment leaves behind, and returns how many reports
// were dropped for it.
func (s *settlements) add(at *attachment, lasts []aggregator.Last) (dropped uint64) {
	for i := range lasts {
		msg := &quoratev1.Settlement{
			Node: string(at.node), NodeIncarnation: uint64(at.life), Attachment: at.number,
			Report: peerproto.EncodeReport(&lasts[i].Report),
		}
		for _, u := range lasts[i].Acknowledged {
			msg.Acknowledged = append(msg.Acknowledged, int64(u))
		}
		s.list = append(s.list, &settlement{msg: msg})
	}
	if n := len(s.list) - maxUnsettled; n > 0 {
		s.list = slices.Delete(s.list, 0, n)
		return uint64(n)
	}
	return 0
}

// answered forgets the oldest report of that attachment.
func (s *settlements) answered(attachment uint64) {
	i := slices.IndexFunc(s.list, func(o *settlement) bool { return o.msg.GetAttachment() == attachment })
	if i >= 0 {
		s.list = slices.Delete(s.list, i, i+1)
	}
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
	lasts := agg.Part(now, 0, quota.Term(m.last.number))
	at := m.attached.Load()
	if at == nil {
		m.stats.dropped.Add(m.unsettled.add(m.last, lasts))
		m.retry.at = min(m.retry.at, now)
		return
	}
	m.parting = lasts
	for i := range lasts {
		m.send(now, at, []quota.Report{lasts[i].Report})
	}
}

// heardLast notes that a grant answers one of the last reports.
func (m *member) heardLast(g *quota.Grant) {
	if len(m.parting) == 0 || len(g.Entries) == 0 {
		return
	}
	m.parting = slices.DeleteFunc(m.parting, func(l aggregator.Last) bool { return l.Report.Seq == g.Entries[0].Ack })
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
