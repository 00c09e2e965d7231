package clients

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/quorate/quorate/aggregator"
	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/journal"
	"github.com/quorate/quorate/internal/attach"
	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
)

// reportJournal records, for each attachment, what this process has booked of keys whose
// counts endure (quota.Limit.Endures), and survives the process. If a process dies after it has
// booked a report and before the client learns of that, the client takes the report as not booked,
// and the node that inherits the attachment books it again. The next process of the
// dead node finds in the journal what was booked twice, and that is given back.
// A process that lives but could not be reached knows it too, for slotsFor.
//
// The journal has the format of the node's own (package journal), in a separate directory,
// with a slot for each key of each attachment, 65,536 in all. For a key without a slot
// the client's word counts.
type reportJournal struct {
	mu              sync.Mutex
	file            *journal.Journal // nil if it could not be opened, or is closed
	sessions        map[sessionID]*sessionSlots
	earlier         map[quota.Opening]quota.Units // of earlier processes; keys from slotKey
	list            []quota.RecoveredCounts       // the source of earlier, until sweep forgets both
	opened          quota.Time
	unverified      []*unverified
	unverifiedBytes int64
	askAt           quota.Time
}

// sessionSlots holds the slots of one attachment.
type sessionSlots struct {
	keys map[quota.Key]keySlot
	last quota.Time // of the last report noted
}

type keySlot struct {
	aggregator.JournalSlot
	epoch quota.Seq
	total quota.Units
	ended quota.Time // when the client closed the key; 0 while it is open
}

// unverified is an attachment to a dead node that was inherited here. When the node
// comes back, this node asks it what it had booked.
type unverified struct {
	node quota.NodeID
	attach.Settlement
	since quota.Time
	size  int64
}

const (
	// maxUnverified bounds the unverified attachments, maxUnverifiedBytes their bytes, and verifyFor
	// how long they wait for their node to come back.
	maxUnverified      = 4096
	maxUnverifiedBytes = 64 << 20
	verifyFor          = 10 * time.Minute
	// slotsFor is how long the slots of an attachment are kept after its last report, which is
	// longer than a broken attachment waits to be settled. endedFor is the same for a
	// closed key, after it was closed.
	slotsFor = 2 * time.Minute
	endedFor = 10 * time.Second
)

func (j *reportJournal) open(cfg *Config) {
	j.sessions, j.earlier = map[sessionID]*sessionSlots{}, map[quota.Opening]quota.Units{}
	if cfg.Dir == "" { // the node is never started
		return
	}
	dir := filepath.Join(cfg.Dir, "clients")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		cfg.Log.Error("no journal of clients: if the process dies, counts of a report may be booked twice", "err", err)
		return
	}
	file, err := journal.Open(journal.Config{Dir: dir, Cluster: cfg.Cluster, Node: cfg.Self, Incarnation: cfg.Incarnation, Logger: cfg.Log})
	if err != nil {
		cfg.Log.Error("the journal of clients was damaged, or cannot be created", "err", err)
	}
	if file == nil {
		return
	}
	j.file, j.list = file, file.Inherited()
	for _, e := range j.list {
		j.earlier[e.Opening] = e.Total
	}
}

func (j *reportJournal) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil {
		return nil
	}
	file := j.file
	j.file = nil
	return file.Close()
}

// slotKey encodes an attachment and a key of it as the key of a slot.
func slotKey(at sessionID, k quota.Key) quota.Key {
	return quota.Key{
		LimitName: quota.LimitName{Namespace: string(at.client), Limit: strconv.FormatUint(uint64(at.inc), 36) + "." + strconv.FormatUint(uint64(at.term), 36)}, Key: k.String(),
	}
}

// note journals the entries of a report that were booked: those that the grant answers.
func (j *reportJournal) note(now quota.Time, limits *quota.Limits, r *quota.Report, g *quota.Grant) {
	j.mu.Lock()
	defer j.mu.Unlock()
	rest := r.Entries
	for i := range g.Entries {
		for len(rest) > 0 && rest[0].Key != g.Entries[i].Key {
			rest = rest[1:]
		}
		if len(rest) == 0 {
			return
		}
		j.set(now, limits, r, &rest[0])
		rest = rest[1:]
	}
}

// noteFinal journals a final report, or a part of one. If the client does not learn that
// it is settled, it takes the report to another node.
func (j *reportJournal) noteFinal(now quota.Time, limits *quota.Limits, r *quota.Report) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range r.Entries {
		j.set(now, limits, r, &r.Entries[i])
	}
}

// set journals an entry if its counts endure. mu must be held.
func (j *reportJournal) set(now quota.Time, limits *quota.Limits, r *quota.Report, e *quota.ReportEntry) {
	if l, ok := limits.Find(e.Key.LimitName); j.file == nil || !ok || !l.Endures() {
		return
	}
	at := sessionID{r.From, r.Incarnation, r.Term}
	p := j.sessions[at]
	if p == nil {
		p = &sessionSlots{keys: map[quota.Key]keySlot{}}
		j.sessions[at] = p
	}
	p.last = now
	have, ok := p.keys[e.Key]
	if !ok || have.epoch < e.Epoch { // the client knows the outcome of earlier epochs
		have.free()
		have = keySlot{JournalSlot: j.file.Slot(slotKey(at, e.Key), e.Epoch), epoch: e.Epoch}
	}
	if e.Final {
		have.ended = now
	}
	if have.epoch == e.Epoch {
		if have.total = e.Used.Plus(e.Overdrawn); have.JournalSlot != nil {
			have.Set(quota.Counts{Total: have.total})
		}
	}
	p.keys[e.Key] = have
}

func (p keySlot) free() {
	if p.JournalSlot != nil {
		p.Free()
	}
}

func (j *reportJournal) forget(at sessionID) {
	p := j.sessions[at]
	if p == nil {
		return
	}
	delete(j.sessions, at)
	if j.file == nil {
		return
	}
	for _, slot := range p.keys {
		slot.free()
	}
}

// sweep forgets slots that are too old to be asked for.
func (j *reportJournal) sweep(now quota.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for at, p := range j.sessions {
		if now.Sub(p.last) >= slotsFor {
			j.forget(at)
			continue
		}
		for k, slot := range p.keys {
			if j.file != nil && slot.ended != 0 && now.Sub(slot.ended) >= endedFor {
				slot.free()
				delete(p.keys, k)
			}
		}
	}
	if j.opened == 0 {
		j.opened = now
	}
	if len(j.list) > 0 && j.file != nil && now.Sub(j.opened) >= verifyFor {
		for _, e := range j.list {
			j.file.Settled(e.Key, e.Incarnation, e.Epoch)
		}
		j.list, j.earlier = nil, map[quota.Opening]quota.Units{}
	}
}

// booked returns, for each entry of a report, what this process or the node's earlier process of that
// incarnation has booked; -1 if unknown.
func (j *reportJournal) booked(incarnation quota.Incarnation, r *quota.Report) []int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	at := sessionID{r.From, r.Incarnation, r.Term}
	here := j.sessions[at]
	out := make([]int64, len(r.Entries))
	for i := range r.Entries {
		e := &r.Entries[i]
		out[i] = -1
		if u, ok := j.earlier[quota.Opening{Key: slotKey(at, e.Key), Incarnation: incarnation, Epoch: e.Epoch}]; ok {
			out[i] = int64(u)
		} else if here != nil && here.keys[e.Key].epoch == e.Epoch {
			out[i] = int64(here.keys[e.Key].total)
		}
	}
	return out
}

// correctUnreported sets the unacknowledged use of each entry from the journal, if the
// journal has the entry.
func (j *reportJournal) correctUnreported(m *attach.Settlement) {
	for i, u := range j.booked(m.Incarnation, &m.Report) {
		e := &m.Report.Entries[i]
		if u >= 0 {
			e.Unreported = max(0, e.Used.Plus(e.Overdrawn)-quota.Units(u))
		}
	}
}

// inherited records an attachment inherited from a node that has not come back.
func (j *reportJournal) inherited(now quota.Time, m *attach.Settlement) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.addUnverified(&unverified{node: m.Node, Settlement: *m, since: now, size: settlementSize(&m.Report)})
}

// addUnverified adds an attachment if there is room. mu must be held.
func (j *reportJournal) addUnverified(d *unverified) {
	if len(j.unverified) < maxUnverified && j.unverifiedBytes+d.size <= maxUnverifiedBytes {
		j.unverifiedBytes += d.size
		j.unverified = append(j.unverified, d)
	}
}

// verifiable removes and returns the attachments to nodes that are back. It drops those that have
// waited for verifyFor, and returns nothing if it was called less than 100 ms ago.
func (j *reportJournal) verifiable(now quota.Time, present func(quota.NodeID) bool) (out []*unverified) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.unverified) == 0 || now < j.askAt {
		return nil
	}
	j.askAt = now.Add(100 * time.Millisecond)
	kept := j.unverified[:0]
	j.unverifiedBytes = 0
	for _, d := range j.unverified {
		switch {
		case present(d.node):
			out = append(out, d)
		case now.Sub(d.since) < verifyFor:
			kept = append(kept, d)
			j.unverifiedBytes += d.size
		}
	}
	clear(j.unverified[len(kept):])
	j.unverified = kept
	return out
}

// verify asks nodes that have come back what they had booked of the attachments
// inherited here, and gives back what was booked twice. It does so on a goroutine of its own.
func (s *Service) verify() {
	now := s.node.Now()
	back := s.journal.verifiable(now, func(id quota.NodeID) bool { return s.node.Process(id) == Connected })
	if len(back) == 0 {
		return
	}
	s.done.Go(func() {
		for _, d := range back {
			if err := s.verifyOne(s.ctx, d); err != nil {
				s.cfg.Log.Debug("final report to a dead node cannot be compared yet", "node", d.node, "err", err)
				s.journal.mu.Lock()
				s.journal.addUnverified(d)
				s.journal.mu.Unlock()
			}
		}
	})
}

func (s *Service) verifyOne(ctx context.Context, d *unverified) error {
	r := &d.Report
	res, err := s.node.Call(ctx, d.node, &peerv1.Call{Body: &peerv1.Call_Client{Client: &peerv1.CallClient{
		Client: string(r.From), Incarnation: uint64(r.Incarnation), Attachment: uint64(r.Term), NodeIncarnation: uint64(d.Incarnation),
		Report: peerproto.EncodeReport(r), Booked: true,
	}}})
	if err != nil {
		return err
	}
	booked := res.GetClientResult().GetBooked()
	if len(booked) != len(r.Entries) {
		return fmt.Errorf("node %s returned %d entries; want %d", d.node, len(booked), len(r.Entries))
	}
	for i, u := range booked {
		e := &r.Entries[i]
		spent := e.Used.Plus(e.Overdrawn)
		twice := min(quota.Units(u), spent) - (spent - e.Unreported)
		fromNode := s.cfg.Aggregator.Allocate(s.node.Now, e.Key, aggregator.AllocationRequest{Look: true})
		if fromNode.Limit == nil || e.Window != 0 && e.Window < fromNode.Window {
			continue
		}
		if fromNode.Limit.Ceiling == quota.Hard { // only overdrafts were inherited
			twice -= min(e.Used, e.Unreported)
		}
		if u < 0 || twice <= 0 {
			continue
		}
		s.cfg.Aggregator.Settle(s.node.Now, e.Key, aggregator.Settlement{Refunded: twice})
	}
	s.node.Wake()
	return nil
}
