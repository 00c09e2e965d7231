package cluster

import (
	"context"
	"fmt"
	"log/slog"
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

// clientJournal says of each attachment what this process has booked of keys whose
// counts endure, where its death does not lose it. A process that dies after it has
// booked a report, and before the client has heard of that, leaves behind what the
// client takes for not booked: whoever inherits the attachment books it again. The
// next process of the node can tell what of it was there twice, and then it is given
// back. So can a process that lives and could not be reached, for placesFor.
//
// It is a journal as that of the node (package journal), in a directory of its own:
// a slot for each key of each attachment, 65,536 in all. What has no slot is taken
// for what the client says.
type clientJournal struct {
	mu      sync.Mutex
	journal *journal.Journal // nil: there is none
	places  map[inheritance]*clientPlaces
	earlier map[earlierPlace]quota.Units
	list    []quota.Afterlife // of earlier, until it is forgotten
	opened  quota.Time
	debts   []*clientDebt
	owed    int64 // bytes of debts
	askAt   quota.Time
}

// clientPlaces are those of one attachment.
type clientPlaces struct {
	keys map[quota.Key]clientPlace
	last quota.Time // when something was noted
}

type clientPlace struct {
	aggregator.JournalSlot
	epoch quota.Seq
	total quota.Units
	ended quota.Time // when the client let go of the key; 0 while it has it
}

// earlierPlace is what an earlier process of the node had a slot for.
type earlierPlace struct {
	life  quota.Incarnation
	key   quota.Key // as placeKey has it
	epoch quota.Seq
}

// clientDebt is an attachment to a dead node that was inherited here: when the node
// is back it is asked what it had booked.
type clientDebt struct {
	node quota.NodeID
	attach.Settlement
	since quota.Time
	size  int64
}

const (
	// maxDebts bounds those, maxOwed their bytes, and debtFor how long the node is waited for.
	maxDebts = 4096
	maxOwed  = 64 << 20
	debtFor  = 10 * time.Minute
	// placesFor is how long what was noted of an attachment is kept after the last
	// report of it; longer than a broken one waits to be settled. Of a key that was
	// let go of it is endedFor.
	placesFor = 2 * time.Minute
	endedFor  = 10 * time.Second
)

func (c *clientJournal) open(cfg *Config, life quota.Incarnation, log *slog.Logger) {
	c.places, c.earlier = map[inheritance]*clientPlaces{}, map[earlierPlace]quota.Units{}
	if cfg.Dir == "" { // a node that is never started
		return
	}
	dir := filepath.Join(cfg.Dir, "clients")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		log.Error("no journal of clients: what a report had counted when the process dies may be counted twice", "err", err)
		return
	}
	j, err := journal.Open(journal.Config{Dir: dir, Cluster: cfg.Cluster, Node: cfg.Self, Life: life, Logger: log})
	if err != nil {
		log.Error("the journal of clients was damaged, or there can be none", "err", err)
	}
	if j == nil {
		return
	}
	c.journal, c.list = j, j.Inherited()
	for _, e := range c.list {
		c.earlier[earlierPlace{e.Life, e.Key, e.Birth}] = e.Total
	}
}

func (c *clientJournal) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.journal == nil {
		return nil
	}
	j := c.journal
	c.journal = nil
	return j.Close()
}

// placeKey is what a slot is for.
func placeKey(at inheritance, k quota.Key) quota.Key {
	return key(string(at.client), strconv.FormatUint(uint64(at.inc), 36)+"."+strconv.FormatUint(uint64(at.term), 36), k.String())
}

// note writes down what a report said, as far as it was booked: the grant answers it.
func (c *clientJournal) note(now quota.Time, limits *quota.Limits, r *quota.Report, g *quota.Grant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.journal == nil {
		return
	}
	rest := r.Entries
	for i := range g.Entries {
		for len(rest) > 0 && rest[0].Key != g.Entries[i].Key {
			rest = rest[1:]
		}
		if len(rest) == 0 {
			return
		}
		e := &rest[0]
		rest = rest[1:]
		if l, ok := limits.Find(e.Key.LimitName); ok && l.Endures() {
			c.set(now, inheritance{r.From, r.Incarnation, r.Term}, e)
		}
	}
}

func (c *clientJournal) set(now quota.Time, at inheritance, e *quota.ReportEntry) {
	p := c.places[at]
	if p == nil {
		p = &clientPlaces{keys: map[quota.Key]clientPlace{}}
		c.places[at] = p
	}
	p.last = now
	have, ok := p.keys[e.Key]
	if !ok || have.epoch < e.Epoch { // what there was of an earlier opening the client knows
		have.free()
		have = clientPlace{JournalSlot: c.journal.Slot(placeKey(at, e.Key), e.Epoch), epoch: e.Epoch}
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

func (p clientPlace) free() {
	if p.JournalSlot != nil {
		p.Free()
	}
}

// drop forgets an attachment that is settled.
func (c *clientJournal) drop(at inheritance) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(at)
}

func (c *clientJournal) forget(at inheritance) {
	p := c.places[at]
	if p == nil {
		return
	}
	delete(c.places, at)
	if c.journal == nil {
		return
	}
	for _, place := range p.keys {
		place.free()
	}
}

// sweep forgets what is too old to be asked for.
func (c *clientJournal) sweep(now quota.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at, p := range c.places {
		if now.Sub(p.last) >= placesFor {
			c.forget(at)
			continue
		}
		for k, place := range p.keys {
			if c.journal != nil && place.ended != 0 && now.Sub(place.ended) >= endedFor {
				place.free()
				delete(p.keys, k)
			}
		}
	}
	if c.opened == 0 {
		c.opened = now
	}
	if len(c.list) > 0 && c.journal != nil && now.Sub(c.opened) >= debtFor {
		for _, e := range c.list {
			c.journal.Settled(e.Key, e.Life, e.Birth)
		}
		c.list, c.earlier = nil, map[earlierPlace]quota.Units{}
	}
}

// booked returns what this process has booked of each entry, or an earlier one of the node; -1
// is not known.
func (c *clientJournal) booked(life quota.Incarnation, r *quota.Report) []int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := inheritance{r.From, r.Incarnation, r.Term}
	here := c.places[at]
	out := make([]int64, len(r.Entries))
	for i := range r.Entries {
		e := &r.Entries[i]
		out[i] = -1
		if u, ok := c.earlier[earlierPlace{life, placeKey(at, e.Key), e.Epoch}]; ok {
			out[i] = int64(u)
		} else if here != nil && here.keys[e.Key].epoch == e.Epoch {
			out[i] = int64(here.keys[e.Key].total)
		}
	}
	return out
}

// know corrects what was not acknowledged by what the journal has.
func (c *clientJournal) know(m *attach.Settlement) {
	for i, u := range c.booked(m.Life, &m.Report) {
		e := &m.Report.Entries[i]
		if u >= 0 {
			e.Unreported = max(0, e.Used.Plus(e.Overdrawn)-quota.Units(u))
		}
	}
}

// owe notes an attachment that was inherited of a node that is not back.
func (c *clientJournal) owe(now quota.Time, m *attach.Settlement) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.oweAgain(&clientDebt{node: m.Node, Settlement: *m, since: now, size: settlementSize(&m.Report)})
}

// oweAgain adds a debt if there is room. mu is held.
func (c *clientJournal) oweAgain(d *clientDebt) {
	if len(c.debts) < maxDebts && c.owed+d.size <= maxOwed {
		c.owed += d.size
		c.debts = append(c.debts, d)
	}
}

// due are the debts to nodes that are back; the others are kept for a while.
func (c *clientJournal) due(now quota.Time, present func(quota.NodeID) bool) (out []*clientDebt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.debts) == 0 || now < c.askAt {
		return nil
	}
	c.askAt = now.Add(100 * time.Millisecond)
	kept := c.debts[:0]
	c.owed = 0
	for _, d := range c.debts {
		switch {
		case present(d.node):
			out = append(out, d)
		case now.Sub(d.since) < debtFor:
			kept = append(kept, d)
			c.owed += d.size
		}
	}
	clear(c.debts[len(kept):])
	c.debts = kept
	return out
}

// correct asks nodes that are back what they had booked of attachments that were
// inherited here, and gives back what was booked twice.
func (n *Node) correct() {
	c := &n.clients.journal
	now := n.clock.now()
	due := c.due(now, func(id quota.NodeID) bool { _, alive := n.lifeOf(id); return alive })
	if len(due) == 0 {
		return
	}
	n.done.Go(func() {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		for _, d := range due {
			select {
			case <-n.stop:
				return
			default:
			}
			if err := n.correctOne(ctx, d); err != nil {
				n.log.Debug("final report to a dead node cannot be compared yet", "node", d.node, "err", err)
				c.mu.Lock()
				c.oweAgain(d)
				c.mu.Unlock()
			}
		}
	})
}

func (n *Node) correctOne(ctx context.Context, d *clientDebt) error {
	r := &d.Report
	res, err := n.call(ctx, d.node, &peerv1.Call{Body: &peerv1.Call_Client{Client: &peerv1.CallClient{
		Client: string(r.From), Incarnation: uint64(r.Incarnation), Attachment: uint64(r.Term), NodeIncarnation: uint64(d.Life),
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
		if u < 0 || twice <= 0 || n.windowOver(e) {
			continue
		}
		n.agg.Settle(n.clock.now, e.Key, aggregator.Settlement{Refunded: twice})
	}
	n.poke()
	return nil
}

// windowOver says whether what an entry tells was for a window that has ended.
func (n *Node) windowOver(e *quota.ReportEntry) bool {
	loan := n.agg.Lend(n.clock.now, e.Key, aggregator.Wish{Look: true})
	return e.Window != 0 && e.Window < loan.Window
}
