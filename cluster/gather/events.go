package gather

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/cluster/peercall"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/backoff"
	"github.com/quorate/quorate/internal/quota"
)

// Times and bounds of a watch on all nodes.
const (
	mergeTime    = 100 * time.Millisecond // how long an event waits for earlier ones of other nodes
	maxPending   = 4096                   // events that wait for others
	memberTime   = time.Second            // interval of looking at the members
	retryTime    = 500 * time.Millisecond // pause after a node did not answer
	endTime      = time.Second            // for telling a node that a watch ends
	eventsBuffer = 256
)

// mergedWatch is a watch on the events of several nodes.
type mergedWatch struct {
	*Service
	node   string // only this node; empty for all
	id     uint64
	filter []byte
	out    chan *quoratev1.WatchResponse

	local     <-chan quota.Event // nil if this node is not watched
	localLost func() uint64

	parts   chan part
	peers   map[quota.NodeID]context.CancelFunc
	missing map[quota.NodeID]bool
	changed bool // missing has changed since it was last sent
	pending []*quoratev1.WatchResponse

	mu   sync.Mutex
	lost uint64 // on other nodes
}

// part is an answer of another node.
type part struct {
	from   quota.NodeID
	events []*quoratev1.WatchResponse
	err    error
}

// WatchAll watches the events of all nodes, or of one node. Events of different nodes are in the
// order of their times if they arrive within mergeTime. A response without an event reports that
// the nodes have changed whose events are missing. buffer is how many events each node keeps for a
// slow reader; lost returns how many did not fit so far. stop ends the watch; the channel is never
// closed.
func (s *Service) WatchAll(f quota.EventFilter, node string, buffer int) (events <-chan *quoratev1.WatchResponse, lost func() uint64, stop func()) {
	ctx, cancel := context.WithCancel(s.ctx)
	filter, err := proto.Marshal(requestOf(f, buffer))
	if err != nil {
		filter = nil // a filter that is not UTF-8 matches nothing that another node could send
	}
	a := &mergedWatch{
		Service: s, node: node, id: rand.Uint64(), filter: filter, out: make(chan *quoratev1.WatchResponse, eventsBuffer),
		parts: make(chan part), peers: map[quota.NodeID]context.CancelFunc{}, missing: map[quota.NodeID]bool{}, localLost: func() uint64 { return 0 },
	}
	end := func() {}
	if node == "" || node == string(s.cfg.Self) {
		a.local, a.localLost, end = s.node.Watch(f, buffer)
	}
	s.done.Go(func() {
		defer end()
		a.run(ctx)
	})
	return a.out, func() uint64 {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.lost + a.localLost()
	}, cancel
}

// run merges the events of all nodes until ctx ends.
func (a *mergedWatch) run(ctx context.Context) {
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	look := time.NewTicker(memberTime)
	defer look.Stop()
	flush := time.NewTimer(mergeTime)
	defer flush.Stop()
	a.updateMembers(ctx, &asking)
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			a.updateMembers(ctx, &asking)
		case p := <-a.parts:
			a.addPart(&p)
		case e := <-a.local:
			a.pending = append(a.pending, &quoratev1.WatchResponse{Event: apiproto.Event(&e), Node: string(a.cfg.Self)})
		case <-flush.C:
			if !a.flush(ctx) {
				return
			}
			flush.Reset(mergeTime)
			continue
		}
		if (len(a.peers) == 0 || len(a.pending) >= maxPending || a.changed) && !a.flush(ctx) {
			return
		}
	}
}

// updateMembers asks the nodes that have become members, and stops asking those that have left.
func (a *mergedWatch) updateMembers(ctx context.Context, asking *sync.WaitGroup) {
	now := a.Service.node.Members()
	for _, id := range now {
		if a.peers[id] != nil || id == a.cfg.Self || a.node != "" && a.node != string(id) {
			continue
		}
		ctx, cancel := context.WithCancel(ctx)
		a.peers[id] = cancel
		asking.Go(func() { a.poll(ctx, id) })
	}
	for id, cancel := range a.peers {
		if !slices.Contains(now, id) {
			cancel()
			delete(a.peers, id)
			a.setMissing(id, false)
		}
	}
}

// setMissing notes whether the events of a node are missing.
func (a *mergedWatch) setMissing(id quota.NodeID, is bool) {
	if a.missing[id] == is {
		return
	}
	a.changed = true
	if is {
		a.missing[id] = true
	} else {
		delete(a.missing, id)
	}
}

// addPart adds the answer of a node to the pending events.
func (a *mergedWatch) addPart(p *part) {
	if a.peers[p.from] == nil {
		return // it has left
	}
	a.setMissing(p.from, p.err != nil)
	a.pending = append(a.pending, p.events...)
}

// flush sends the pending events, ordered by time. It returns false once ctx has ended.
func (a *mergedWatch) flush(ctx context.Context) bool {
	slices.SortStableFunc(a.pending, func(x, y *quoratev1.WatchResponse) int {
		return x.Event.At.AsTime().Compare(y.Event.At.AsTime())
	})
	var missing []string
	for _, id := range slices.Sorted(maps.Keys(a.missing)) {
		missing = append(missing, string(id))
	}
	if a.changed {
		a.pending, a.changed = append(a.pending, &quoratev1.WatchResponse{}), false
	}
	for _, r := range a.pending {
		r.MissingNodes = missing
		select {
		case a.out <- r:
		case <-ctx.Done():
			return false
		}
	}
	clear(a.pending)
	a.pending = a.pending[:0]
	return true
}

// poll asks one node for its events until ctx ends.
func (a *mergedWatch) poll(ctx context.Context, id quota.NodeID) {
	call := func(ctx context.Context, limit time.Duration, end bool) (*peerv1.CallEventsResult, error) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		c, err := a.Service.node.Call(ctx, id, &peerv1.Call{Body: &peerv1.Call_Events{Events: &peerv1.CallEvents{Watch: a.id, Filter: a.filter, End: end}}})
		return c.GetEventsResult(), err
	}
	defer func() { // best effort: the watch ends by itself too
		_, _ = call(context.WithoutCancel(ctx), endTime, true)
	}()
	var known uint64 // events lost there, as the node counts them
	for {
		res, err := call(ctx, pollTime+2*peercall.Limit, false)
		p := part{from: id, err: err}
		for _, data := range res.GetEvents() {
			e := &quoratev1.Event{}
			if proto.Unmarshal(data, e) == nil {
				p.events = append(p.events, &quoratev1.WatchResponse{Event: e, Node: string(id)})
			}
		}
		if err == nil {
			a.mu.Lock()
			if res.GetLost() < known { // the node has begun a new watch
				known = 0
			}
			a.lost += res.GetLost() - known
			a.mu.Unlock()
			known = res.GetLost()
		}
		select {
		case a.parts <- p:
		case <-ctx.Done():
			return
		}
		if err != nil {
			if backoff.Sleep(ctx, retryTime) != nil {
				return
			}
		}
	}
}
