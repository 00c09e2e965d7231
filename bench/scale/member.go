package scale

import (
	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
)

// member is a node, which reports and leads ranges.
type member struct {
	c       *cluster
	id      quota.NodeID
	agg     *aggregator.Aggregator
	ledgers map[quota.RangeID]*leader.Ledger
	wakeAt  quota.Time
	asleep  bool
	call    aggregator.Call
	reports peerproto.Reports
	grants  peerproto.Grants
}

// maxLines bounds the lines of a checkpoint made at a time, as on a node.
const maxLines = 4096

func (m *member) request(key string) {
	c := m.c
	c.res.Requests++
	if m.asleep {
		m.asleep = false
		m.agg.Collect(c.now)
	}
	began := cpu()
	d := m.decide(key)
	c.spent(&c.res.Decide, began)
	if d.Allowed {
		c.res.Admitted++
	}
	if m.agg.Urgent() || m.wakeAt == 0 {
		m.pump()
	}
}

// decide decides as a node does, without waiting for a grant.
func (m *member) decide(key string) quota.Decision {
	d, need, simple := m.agg.TrySimple(m.c.clock, m.c.Limit.LimitName, key, 1)
	if simple && need == aggregator.Nothing {
		return d
	}
	var out [1]quota.Decision
	m.call.Reset([]quota.Request{{Key: quota.Key{LimitName: m.c.Limit.LimitName, Key: key}, Cost: 1, MaxWait: quota.LimitsWait}}, out[:])
	m.call.Final, m.call.Alone = true, true
	m.agg.Decide(m.c.clock, &m.call)
	return out[0]
}

// pump sends the due reports, one frame per leader, and sets the timer for the next.
func (m *member) pump() {
	c := m.c
	began := cpu()
	reports := m.agg.Collect(c.now)
	frames := map[*member][]*quota.Report{}
	var own []*quota.Report
	for i := range reports {
		r := &reports[i]
		c.res.Entries += int64(len(r.Entries))
		if to := c.leaderOf(r.Range); to == m {
			own = append(own, r)
		} else {
			frames[to] = append(frames[to], r)
		}
	}
	packed := map[*member][]byte{}
	for to, list := range frames {
		packed[to] = peerproto.PackReports(nil, list)
	}
	c.spent(&c.res.Member, began)
	for _, l := range c.leaders {
		data, ok := packed[l]
		if !ok {
			continue
		}
		delete(packed, l)
		c.res.Frames++
		c.res.ReportBytes += int64(len(data))
		c.at(c.now.Add(c.Delay), func() { l.book(m, data) })
	}
	m.bookOwn(own)
	m.sleep()
}

// sleep sets the timer for the next due report, or none while no key is open.
func (m *member) sleep() {
	if m.asleep = m.agg.Quiet(); m.asleep {
		m.wakeAt = 0
		return
	}
	wake := m.agg.NextWake()
	if wake == m.wakeAt {
		return
	}
	m.wakeAt = wake
	m.c.at(wake, func() {
		if m.wakeAt == wake {
			m.wakeAt = 0
			m.pump()
		}
	})
}

// book handles a frame of reports at a leader and answers it.
func (m *member) book(from *member, data []byte) {
	c := m.c
	began := cpu()
	reports, err := m.reports.Unpack(from.id, data)
	if err != nil {
		panic(err)
	}
	grants := m.report(reports)
	answer := peerproto.PackGrants(nil, pointers(grants))
	c.spent(&c.res.Leader, began)
	m.grant(from, answer)
	m.pushed()
}

func (m *member) report(reports []quota.Report) []quota.Grant {
	grants := make([]quota.Grant, 0, len(reports))
	for i := range reports {
		m.c.res.Booked += int64(len(reports[i].Entries))
		if g, err := m.ledgers[reports[i].Range].Report(m.c.now, reports[i]); err == nil {
			grants = append(grants, g)
		}
	}
	return grants
}

// bookOwn books the reports of the leader's own member. It sends nothing.
func (m *member) bookOwn(own []*quota.Report) {
	if len(own) == 0 {
		return
	}
	c := m.c
	reports := make([]quota.Report, len(own))
	for i, r := range own {
		reports[i] = *r
	}
	began := cpu()
	grants := m.report(reports)
	c.spent(&c.res.Leader, began)
	began = cpu()
	for _, g := range grants {
		m.agg.Apply(c.now, g)
	}
	c.spent(&c.res.Member, began)
	m.pushed()
}

// pushed sends the grants that answer no report, to other members than the reporting one.
func (m *member) pushed() {
	c := m.c
	for _, l := range m.ledgers {
		began := cpu()
		pushed := l.Pushed()
		if len(pushed) == 0 {
			continue
		}
		to := map[quota.NodeID][]*quota.Grant{}
		var order []quota.NodeID
		for i := range pushed {
			id := pushed[i].To
			if to[id] == nil {
				order = append(order, id)
			}
			to[id] = append(to[id], &pushed[i])
		}
		packed := make([][]byte, len(order))
		for i, id := range order {
			packed[i] = peerproto.PackGrants(nil, to[id])
		}
		c.spent(&c.res.Leader, began)
		for i, id := range order {
			c.res.Pushed++
			m.grant(c.index[id], packed[i])
		}
	}
}

// grant sends a frame of grants.
func (m *member) grant(to *member, data []byte) {
	c := m.c
	c.res.GrantBytes += int64(len(data))
	c.res.Grants++
	c.at(c.now.Add(c.Delay), func() { to.apply(m, data) })
}

func (m *member) apply(from *member, data []byte) {
	c := m.c
	began := cpu()
	grants, err := m.grants.Unpack(from.id, m.id, data)
	if err != nil {
		panic(err)
	}
	for _, g := range grants {
		m.agg.Apply(c.now, g)
	}
	c.spent(&c.res.Member, began)
	if m.agg.Urgent() || m.wakeAt == 0 {
		m.pump()
	}
}

func (m *member) sweep() {
	c := m.c
	began := cpu()
	m.agg.Sweep(c.now)
	c.spent(&c.res.Member, began)
	c.at(c.now.Add(sweepEvery), m.sweep)
}

// tend does a leader's work of once a second: it drops accounts that are full again and unused, and
// writes the levels that changed.
func (m *member) tend(r quota.RangeID) {
	c := m.c
	l := m.ledgers[r]
	began := cpu()
	l.Sweep(c.now)
	for {
		lines := l.Checkpoint(c.now, maxLines)
		l.Saved(c.now, l.Written())
		c.res.Lines += int64(len(lines))
		if len(lines) < maxLines {
			break
		}
	}
	c.spent(&c.res.Tend, began)
	c.at(c.now.Add(sweepEvery), func() { m.tend(r) })
}

func pointers(grants []quota.Grant) []*quota.Grant {
	out := make([]*quota.Grant, len(grants))
	for i := range grants {
		out[i] = &grants[i]
	}
	return out
}
