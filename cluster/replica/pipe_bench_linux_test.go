package replica

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/aggregator"
	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
)

// BenchmarkPipe measures the whole path of a count in one process: the members collect and encode; the
// leader decodes, books, divides and encodes; the members decode and apply. Every key changes at every
// member in every interval. The benchmark reports the processor time per reported key, and the bytes of
// reports and of grants:
//
//	count   the requests, which are not part of the pipe
//	member  collect, encode, decode, apply
//	leader  decode, book, divide, encode
//	wire    what the transport makes of a frame: a message with a copy of the bytes, in both
//	        directions, allocated each time
//	gc      collecting the garbage of all of them, with the members, the leader and the keys
//	        of the load in one heap. Collections run between the stages whenever the heap has
//	        doubled, as often as automatic ones would. An automatic collection would be
//	        charged to the stage that happens to run
//
//	go test ./cluster/replica -run xxx -bench Pipe -cpu 1
func BenchmarkPipe(b *testing.B) {
	for _, bc := range []struct {
		name          string
		keys, members int
		limit         quota.Limit
		cost          int64 // what a member uses in each interval
	}{
		{"soft/3members", 10_000, 3, quota.Limit{Rate: quota.Rate{Tokens: 100, Per: time.Second}, Burst: 100}, 3},
		{"hard/3members", 10_000, 3, quota.Limit{Rate: quota.Rate{Tokens: 100, Per: time.Second}, Burst: 100, Ceiling: quota.Hard}, 3},
		{"slow/3members", 10_000, 3, quota.Limit{Rate: quota.Rate{Tokens: 30, Per: time.Second}, Burst: 30}, 1},
		{"soft/10members", 3_000, 10, quota.Limit{Rate: quota.Rate{Tokens: 300, Per: time.Second}, Burst: 300}, 3},
		{"soft/100kkeys", 100_000, 3, quota.Limit{Rate: quota.Rate{Tokens: 100, Per: time.Second}, Burst: 100}, 3},
	} {
		b.Run(bc.name, func(b *testing.B) {
			defer debug.SetGCPercent(debug.SetGCPercent(-1))
			p := newPipe(b, bc.keys, bc.members, bc.limit)
			for range 30 { // until demand is known
				p.interval(bc.cost)
			}
			p.sum = pipeSum{}
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				p.interval(bc.cost)
			}
			p.sum.report(b)
		})
	}
}

// pipeSum holds what the stages have used.
type pipeSum struct {
	count, member, leader, wire, gc time.Duration

	keys, reports, grants int64 // reported keys, bytes
	mallocs               uint64
}

func (s *pipeSum) report(b *testing.B) {
	n := float64(s.keys)
	b.ReportMetric(float64(s.count)/n, "count-ns/key")
	b.ReportMetric(float64(s.member)/n, "member-ns/key")
	b.ReportMetric(float64(s.leader)/n, "leader-ns/key")
	b.ReportMetric(float64(s.wire)/n, "wire-ns/key")
	b.ReportMetric(float64(s.gc)/n, "gc-ns/key")
	b.ReportMetric(float64(s.reports)/n, "report-B/key")
	b.ReportMetric(float64(s.grants)/n, "grant-B/key")
	b.ReportMetric(float64(s.mallocs)/n, "allocs/key")
	b.ReportMetric(n/float64(b.N), "keys/op")
	b.ReportMetric(0, "allocs/op")
	b.ReportMetric(0, "B/op")
}

// pipe is members and a leader that exchange only bytes.
type pipe struct {
	b       *testing.B
	now     quota.Time
	names   []string
	members []*pipeMember
	ledgers []*leader.Ledger
	reports peerproto.Reports
	packed  []byte
	live    uint64 // heap size in bytes after the last collection
	answers answerBuffer
	sum     pipeSum
}

// pipeMember is a member with the memory that its node keeps for the pipe.
type pipeMember struct {
	id     quota.NodeID
	agg    *aggregator.Aggregator
	room   aggregator.Buffer
	packed []byte
	grants peerproto.Grants
}

const pipeRanges = 16

var pipeLimit = quota.LimitName{Namespace: "api", Limit: "per_tenant"}

func newPipe(b *testing.B, keys, members int, limit quota.Limit) *pipe {
	b.Helper()
	limit.LimitName = pipeLimit
	limits, err := quota.NewLimits(1, []quota.Limit{limit})
	if err != nil {
		b.Fatal(err)
	}
	p := &pipe{b: b, now: quota.Time(time.Hour)}
	for k := range keys {
		p.names = append(p.names, fmt.Sprintf("tenant-%017d", k))
	}
	var ids []quota.NodeID
	for m := range members {
		ids = append(ids, quota.NodeID(fmt.Sprintf("n%d", m+1)))
	}
	for r := range quota.RangeID(pipeRanges) {
		p.ledgers = append(p.ledgers, leader.New(leader.Config{}, r, 1, "leader", ids, limits, nil, p.now))
	}
	for _, id := range ids {
		a := aggregator.New(aggregator.Config{Self: id, Incarnation: 1, Nodes: members, Ranges: pipeRanges}, p.now)
		a.SetLimits(p.now, limits)
		for r := range quota.RangeID(pipeRanges) {
			a.SetLeader(r, "leader", 1)
		}
		p.members = append(p.members, &pipeMember{id: id, agg: a})
	}
	return p
}

// spent returns the processor time of the process. Unlike elapsed time it does not depend on how busy the
// machine is.
func spent() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// took adds the processor time of f to a sum.
func took(sum *time.Duration, f func()) {
	began := spent()
	f()
	*sum += spent() - began
}

// interval makes every member use every key, one member after another.
func (p *pipe) interval(cost int64) {
	clock := func() quota.Time { return p.now }
	for _, m := range p.members {
		p.now = p.now.Add(100 * time.Millisecond / time.Duration(len(p.members)))
		took(&p.sum.count, func() {
			for _, k := range p.names {
				decideAlone(m.agg, clock, quota.Key{LimitName: pipeLimit, Key: k}, cost)
			}
		})
		p.exchange(m)
		p.collectGarbage()
	}
	for _, l := range p.ledgers {
		l.Sweep(p.now)
	}
}

// collectGarbage collects garbage if there is at least as much of it as of live memory.
func (p *pipe) collectGarbage() {
	var mem runtime.MemStats
	if runtime.ReadMemStats(&mem); mem.HeapAlloc < 2*p.live {
		return
	}
	took(&p.sum.gc, runtime.GC)
	runtime.ReadMemStats(&mem)
	p.live = mem.HeapAlloc
}

// exchange carries a member's reports to the leader, and the answers back.
func (p *pipe) exchange(m *pipeMember) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var reports []quota.Report
	took(&p.sum.member, func() { reports = m.agg.CollectInto(p.now, &m.room) })
	for len(reports) > 0 { // split into messages as a node does
		n, entries := 0, 0
		for n < len(reports) && entries+len(reports[n].Entries) <= peerproto.MaxPacked {
			entries += len(reports[n].Entries)
			n++
		}
		p.carry(m, reports[:n])
		reports = reports[n:]
	}
	runtime.ReadMemStats(&after)
	p.sum.mallocs += after.Mallocs - before.Mallocs
}

// carry carries one message to the leader, and its answer back.
func (p *pipe) carry(m *pipeMember, reports []quota.Report) {
	list := make([]*quota.Report, len(reports))
	for i := range reports {
		p.sum.keys += int64(len(reports[i].Entries))
		list[i] = &reports[i]
	}
	took(&p.sum.member, func() { m.packed = peerproto.PackReports(m.packed[:0], list) })
	var sent, answer []byte
	var there, back *peerv1.Frame
	took(&p.sum.wire, func() {
		sent = p.marshal(&peerv1.Frame{Body: &peerv1.Frame_PackedReports{PackedReports: m.packed}})
		there = p.unmarshal(sent)
	})
	p.sum.reports += int64(len(sent))

	p.now = p.now.Add(200 * time.Microsecond)
	took(&p.sum.leader, func() { p.lead(m.id, there.GetPackedReports()) })
	took(&p.sum.wire, func() {
		answer = p.marshal(&peerv1.Frame{Body: &peerv1.Frame_PackedGrants{PackedGrants: p.packed}})
		back = p.unmarshal(answer)
	})
	p.sum.grants += int64(len(answer))

	p.now = p.now.Add(200 * time.Microsecond)
	took(&p.sum.member, func() {
		grants, err := m.grants.Unpack("leader", m.id, back.GetPackedGrants())
		if err != nil {
			p.b.Fatal(err)
		}
		for i := range grants {
			m.agg.Apply(p.now, grants[i])
		}
	})
}

// lead does the leader's part, and leaves the answer in p.packed.
func (p *pipe) lead(from quota.NodeID, data []byte) {
	reports, err := p.reports.Unpack(from, data)
	if err != nil {
		p.b.Fatal(err)
	}
	out := make([]*quota.Grant, 0, len(reports))
	p.answers.reset()
	for i := range reports {
		l := p.ledgers[reports[i].Range]
		g, err := l.ReportInto(p.answers.alloc(len(reports[i].Entries)), p.now, &reports[i])
		if err != nil {
			p.b.Fatal(err)
		}
		l.Pushed()
		if len(g.Entries) > 0 {
			out = append(out, &g)
		}
	}
	p.packed = peerproto.PackGrants(p.packed[:0], out)
}

func (p *pipe) marshal(f *peerv1.Frame) []byte {
	data, err := proto.Marshal(f)
	if err != nil {
		p.b.Fatal(err)
	}
	return data
}

func (p *pipe) unmarshal(data []byte) *peerv1.Frame {
	f := &peerv1.Frame{}
	if err := proto.Unmarshal(data, f); err != nil {
		p.b.Fatal(err)
	}
	return f
}

// decideAlone decides one request without a grant or a leader.
func decideAlone(a *aggregator.Aggregator, clock aggregator.Clock, k quota.Key, cost int64) quota.Decision {
	var c aggregator.Call
	c.Reset([]quota.Request{{Key: k, Cost: cost, MaxWait: quota.LimitsWait}}, make([]quota.Decision, 1))
	c.Final, c.Alone = true, true
	a.Decide(clock, &c)
	return c.Out[0]
}
