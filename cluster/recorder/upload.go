package recorder

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/backoff"
	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/snapshotio"
	"github.com/quorate/quorate/leader"
)

// Bounds on uploads.
const (
	// maxUploadSlots is per range and message. It is more than a range may have waiting for MaxIdle, so that
	// counts do not wait behind slots without any.
	maxUploadSlots = MaxIdle/history.SlotSeconds + 3
	maxUploadBytes = 4 << 20 // per message, unless a single slot is larger
	uploadRetry    = 2 * history.Patience
	maxWriting     = 4       // large entries on their way into logs; other ranges wait
	largeEntry     = 1 << 16 // bytes; smaller entries do not wait, and share the syncs of the logs
	measureEvery   = 5       // seconds between reads of the live error
	writeLimit     = 5 * time.Second
)

// uploader counts this node's decisions for the history, and brings the counts into the logs: see
// docs/rfcs/20261122_history.md.
type uploader struct {
	service *Recorder
	last    history.Second // the second of the member loop's last tally

	mu      sync.Mutex
	tally   *history.Tally
	seen    map[quota.NodeID]quota.Incarnation
	ranges  []progress
	busy    map[quota.NodeID]bool // nodes with a message in flight
	live    map[quota.RangeID]*measured
	writing chan struct{}
}

// progress is the state of this node's uploads to one range.
type progress struct {
	term       quota.Term     // term of the leader that accepted them; 0 if none
	from       quota.NodeID   // that leader
	acceptedTo history.Slot   // all earlier slots have been accepted
	at         history.Second // when they were accepted
}

// measured holds the live errors of a ledger that have been counted already.
type measured struct {
	ledger *leader.Ledger
	of     map[quota.LimitName]quota.LiveError
}

func (h *uploader) init(s *Recorder) {
	h.service = s
	h.tally = h.newTally()
	h.seen, h.busy, h.live = map[quota.NodeID]quota.Incarnation{}, map[quota.NodeID]bool{}, map[quota.RangeID]*measured{}
	h.ranges, h.writing = make([]progress, h.service.cfg.Ranges), make(chan struct{}, maxWriting)
}

func (h *uploader) newTally() *history.Tally {
	return history.NewTally(h.service.cfg.Self, Second(h.service.node.Now()), h.service.cfg.Ranges, func(l quota.LimitName) quota.RangeID { return OwnerRange(l, h.service.cfg.Ranges) })
}

// Second returns the second that contains t.
func Second(t quota.Time) history.Second { return history.Second(int64(t) / int64(time.Second)) }

// collect adds the decisions since the last call to the second at.
func (h *uploader) collect(at history.Second, all bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.service.node.Tally(all, func(l quota.LimitName, admitted, refused quota.Units) {
		h.tally.Add(at, l, history.Counts{Attempted: admitted.Plus(refused), Admitted: admitted})
	})
}

// run uploads, collects and writes once a second, shortly after the second begins.
func (h *uploader) run() {
	if h.service.cfg.Keep.Off {
		return
	}
	for {
		now := h.service.node.Now()
		next := quota.Time(int64(Second(now))+1)*quota.Time(time.Second) + quota.Time(200*time.Millisecond)
		if backoff.Sleep(h.service.ctx, next.Sub(now)) != nil {
			return
		}
		h.round(Second(h.service.node.Now()))
	}
}

func (h *uploader) round(now history.Second) {
	if now%measureEvery == 0 {
		h.MeasureAll(now - 1)
	}
	alive := h.connected(now)
	h.gather(now, alive)
	h.upload(now)
}

// connected returns the connected processes, and records those seen for the first time.
func (h *uploader) connected(now history.Second) []history.Process {
	all := append([]history.Process{h.service.cfg.Self}, h.service.node.Peers()...)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range all {
		if h.seen[p.Node] < p.Incarnation {
			h.seen[p.Node] = p.Incarnation
			h.tally.Saw(now, p)
		}
	}
	h.tally.Expire(now)
	return all
}

// gather starts writing the uploads collected by the ranges led here, and the last minute's most
// requested keys of each range whose turn has come.
func (h *uploader) gather(now history.Second, alive []history.Process) {
	for r := range quota.RangeID(h.service.cfg.Ranges) {
		replica := h.service.node.Replica(r)
		if m, due := replica.wantsList(now, r); due {
			h.listTopKeys(r, m, false)
		}
		lines, slots, term := replica.Lines(now, alive)
		if lines == nil {
			continue
		}
		go h.write(r, lines, slots, term)
	}
}

// write writes lines to a range's log. It runs at most once per range, and for up to maxWriting ranges
// with large entries at a time.
func (h *uploader) write(r quota.RangeID, lines *raftlogv1.HistoryLines, slots []history.Slot, term quota.Term) {
	entry := snapshotio.Encode(&raftlogv1.RangeCommand{Change: &raftlogv1.RangeCommand_History{History: lines}})
	if len(entry) >= largeEntry {
		h.writing <- struct{}{}
		defer func() { <-h.writing }()
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeLimit)
	defer cancel()
	err := h.service.node.Propose(ctx, r, entry)
	h.service.node.Replica(r).Written(term, slots, err == nil)
	if err != nil {
		h.service.log.Debug("history: time slots were not committed", "range", r, "err", err)
	}
}

// listTopKeys queues the most requested keys since the last list for the log, as the list of a minute. ends
// says that the range is handed over, or that the node stops.
func (h *uploader) listTopKeys(r quota.RangeID, m history.Minute, ends bool) {
	const atOnce = 128 // keys that are looked at while the ledger is locked
	for more := true; more; {
		more = false
		h.service.node.WithLedger(r, func(l *leader.Ledger, _ quota.Time) { more = l.TopSome(history.KeysEach, atOnce) })
	}
	h.service.node.WithLedger(r, func(l *leader.Ledger, now quota.Time) {
		var out []history.TopKeys
		for _, t := range l.TopSince(history.KeysEach, history.KeysAll) {
			list := history.TopKeys{Limit: t.Limit, Rest: t.Rest}
			for _, k := range t.Keys {
				list.Keys = append(list.Keys, history.KeyTotal{Key: k.Key, Attempted: k.Attempted, Admitted: k.Admitted})
			}
			out = append(out, list)
		}
		h.service.node.Replica(r).setList(now, l.Term(), m, out, ends)
	})
}

// MeasureAll counts what the ledgers led here have measured since the last call.
func (h *uploader) MeasureAll(at history.Second) {
	for r := range quota.RangeID(h.service.cfg.Ranges) {
		h.service.node.WithLedger(r, func(l *leader.Ledger, _ quota.Time) { h.measure(at, r, l) })
	}
}

// measure counts what a ledger has measured since the last call. The caller holds its replica's lock.
func (h *uploader) measure(at history.Second, r quota.RangeID, l *leader.Ledger) {
	if h.service.cfg.Keep.Off {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.live[r]
	if m == nil || m.ledger != l {
		m = &measured{l, map[quota.LimitName]quota.LiveError{}}
		h.live[r] = m
	}
	l.LiveErrors(func(n quota.LimitName, e *quota.LiveError) {
		was := m.of[n]
		c := history.Counts{
			Over:           max(0, e.OverAdmitted-was.OverAdmitted).Plus(max(0, e.CutOff-was.CutOff)),
			Needless:       max(0, e.Needless-was.Needless),
			NeedlessAtMost: max(0, e.NeedlessAtMost-was.NeedlessAtMost),
		}
		if c != (history.Counts{}) {
			h.tally.Add(at, n, c)
			m.of[n] = *e
		}
	})
}

// message is an upload to one node.
type message struct {
	size   int
	ranges []*peerv1.HistoryUpload
	to     []history.Slot
}

// upload sends leaders the slots that they lack.
func (h *uploader) upload(now history.Second) {
	h.mu.Lock()
	out := map[quota.NodeID]*message{}
	for r := range quota.RangeID(len(h.ranges)) {
		to := h.service.node.Leader(r)
		if to == "" || h.busy[to] {
			continue
		}
		if out[to] == nil {
			out[to] = &message{}
		}
		h.add(now, r, to, out[to])
	}
	for to, m := range out {
		if len(m.ranges) > 0 {
			h.busy[to] = true
		} else {
			delete(out, to)
		}
	}
	h.mu.Unlock()
	for to, m := range out {
		go h.send(to, m)
	}
}

// add adds to m the upload to one range, or a query for how far its log reaches. The caller holds h.mu.
func (h *uploader) add(now history.Second, r quota.RangeID, to quota.NodeID, m *message) {
	first, due := h.tally.First(now, r)
	if !due || m.size >= maxUploadBytes {
		return
	}
	st := &h.ranges[r]
	out := &peerv1.HistoryUpload{Range: uint32(r), First: int64(first)}
	upto := st.acceptedTo
	if last := h.tally.Last(now); st.from != to || upto <= last || now-st.at >= uploadRetry {
		all := h.tally.Pending(now, r, maxUploadSlots)
		for i := range all {
			data := all[i].Append(nil)
			out.Slots = append(out.Slots, data)
			upto = all[i].Slot + 1
			if m.size += len(data); m.size >= maxUploadBytes {
				break
			}
		}
	}
	m.ranges, m.to = append(m.ranges, out), append(m.to, upto)
}

// send sends a message and processes the answer.
func (h *uploader) send(to quota.NodeID, m *message) {
	res := h.deliver(to, &peerv1.CallHistoryUpload{Incarnation: uint64(h.service.cfg.Self.Incarnation), Ranges: m.ranges})
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.busy, to)
	now := Second(h.service.node.Now())
	for i, t := range m.ranges {
		var result *peerv1.HistoryUploadResult
		if i < len(res.GetRanges()) {
			result = res.Ranges[i]
		}
		st := &h.ranges[t.Range]
		if !result.GetAccepted() {
			*st = progress{}
			continue
		}
		if len(t.Slots) > 0 {
			*st = progress{term: quota.Term(result.Term), from: to, acceptedTo: m.to[i], at: now}
		} else if st.term != quota.Term(result.Term) {
			*st = progress{} // a new term of the same leader: it lost what it had
		}
		h.tally.Acknowledge(quota.RangeID(t.Range), history.Slot(result.Next))
	}
}

func (h *uploader) deliver(to quota.NodeID, c *peerv1.CallHistoryUpload) *peerv1.CallHistoryUploadResult {
	if to == h.service.cfg.Self.Node {
		return h.onUpload(to, c)
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeLimit)
	defer cancel()
	res, err := h.service.node.Call(ctx, to, &peerv1.Call{Body: &peerv1.Call_HistoryUpload{HistoryUpload: c}})
	if err != nil {
		return nil
	}
	return res.GetHistoryUploadResult()
}

// onUpload accepts the uploads of a process to the ranges that this node leads.
func (h *uploader) onUpload(from quota.NodeID, c *peerv1.CallHistoryUpload) *peerv1.CallHistoryUploadResult {
	out := &peerv1.CallHistoryUploadResult{}
	sender := history.Process{Node: from, Incarnation: quota.Incarnation(c.Incarnation)}
	now := Second(h.service.node.Now())
	for _, t := range c.Ranges {
		result := &peerv1.HistoryUploadResult{}
		out.Ranges = append(out.Ranges, result)
		rep := h.service.node.Replica(quota.RangeID(t.Range))
		if rep == nil || h.service.cfg.Keep.Off {
			continue
		}
		all, err := decodeUploads(sender, t.Slots)
		if err != nil {
			h.service.log.Warn("history: an upload cannot be read", "peer", from, "range", t.Range, "err", err)
			continue
		}
		next, term, ok := rep.Accept(now, sender, history.Slot(t.First), all)
		result.Accepted, result.Term, result.Next = ok, uint64(term), int64(next)
	}
	return out
}

func decodeUploads(from history.Process, all [][]byte) ([]history.Upload, error) {
	out := make([]history.Upload, 0, len(all))
	for _, data := range all {
		t, err := history.DecodeUpload(from, data)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// Finish uploads all counts, including the current second, and waits until the logs have them, for at
// most FinishLimit or until ctx ends. A process that stops in order thus leaves no slot incomplete.
func (h *uploader) Finish(ctx context.Context) {
	if h.service.cfg.Keep.Off {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, FinishLimit)
	defer cancel()
	done := make(chan struct{})
	h.service.node.OnMemberLoop(func(now quota.Time) {
		h.collect(Second(now), true)
		h.last = 1 << 62 // nothing is counted any more
		close(done)
	})
	select {
	case <-done:
	case <-ctx.Done():
		return
	}
	now := Second(h.service.node.Now())
	h.MeasureAll(now)
	for r := range quota.RangeID(h.service.cfg.Ranges) {
		h.listTopKeys(r, now.Slot().Minute(), true)
	}
	h.mu.Lock()
	h.tally.End(now)
	h.mu.Unlock()
	for h.Behind() {
		h.round(Second(h.service.node.Now()))
		if backoff.Sleep(ctx, 50*time.Millisecond) != nil {
			return
		}
	}
}

// FinishLimit bounds the last upload of a node that stops.
const FinishLimit = 2 * time.Second

// handOver writes the keys requested since the last lists before the ranges move to other leaders. It
// waits until ctx ends, at most FinishLimit.
func (h *uploader) handOver(ctx context.Context) {
	if h.service.cfg.Keep.Off {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, FinishLimit)
	defer cancel()
	for r := range quota.RangeID(h.service.cfg.Ranges) {
		h.listTopKeys(r, Second(h.service.node.Now()).Slot().Minute(), true)
	}
	unlisted := func() bool {
		for r := range quota.RangeID(h.service.cfg.Ranges) {
			if h.service.node.Replica(r).unlisted() {
				return true
			}
		}
		return false
	}
	for unlisted() {
		now := Second(h.service.node.Now())
		h.gather(now, h.connected(now))
		if backoff.Sleep(ctx, 20*time.Millisecond) != nil {
			return
		}
	}
}

// Behind reports whether any range that has a leader lacks uploads.
func (h *uploader) Behind() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := Second(h.service.node.Now())
	for r := range quota.RangeID(len(h.ranges)) {
		if _, due := h.tally.First(now, r); due && h.service.node.Leader(r) != "" {
			return true
		}
	}
	return false
}

// metrics registers the metrics of uploads.
func (h *uploader) metrics(reg prometheus.Registerer) {
	reg.MustRegister(
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "quorate_history_dropped_slots_total",
			Help: "Time slots of ten seconds that no leader stored within an hour, counted once per range.",
		}, func() float64 {
			h.mu.Lock()
			defer h.mu.Unlock()
			return float64(h.tally.Dropped())
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "quorate_history_behind_seconds",
			Help: "Age of the oldest time slot of ten seconds that is not in its range's log yet.",
		}, h.age))
}

func (h *uploader) age() float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, oldest := Second(h.service.node.Now()), history.Second(0)
	for r := range quota.RangeID(len(h.ranges)) {
		if first, due := h.tally.First(now, r); due && !h.service.cfg.Keep.Off {
			oldest = max(oldest, now-first.First())
		}
	}
	return float64(oldest)
}
