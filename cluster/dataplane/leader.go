package dataplane

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/shard"
)

// errNotAsked means that the leader has not booked the request and will not. errNoAnswer means that it may have booked it,
// or still may. No request is repeated.
var (
	errNotAsked = errors.New("the leader of the key's range cannot be asked")
	errNoAnswer = errors.New("the leader did not answer in time")
)

// askHere asks this node's own replica of the range, if that leads and can decide without waiting.
func (d *Decider) askHere(a *quota.Ask) (quota.Answer, bool) {
	own := d.cfg.Replicas.Of(shard.Of(a.Key, d.cfg.Ranges))
	if !own.Leads() || d.ctx.Err() != nil {
		return quota.Answer{}, false
	}
	return own.TryDecide(a)
}

// enqueue queues requests of one caller for the leader of a range, which may be this node. It returns how many it queued,
// the first ones; the leader decides those in order. Each answered request is sent to its channel, which must have room.
func (d *Decider) enqueue(r quota.RangeID, reqs []*decideRequest) int {
	q := &d.queues[r]
	start, n := q.add(reqs)
	if start && !d.spawn(func() { d.askAll(r, q) }) {
		return 0
	}
	return n
}

// withdraw stops waiting for the answer to a request, and returns errNotAsked or errNoAnswer.
func (d *Decider) withdraw(req *decideRequest) error {
	return d.queues[shard.Of(req.ask.Key, d.cfg.Ranges)].cancel(req)
}

// pace is the time after which a message no longer holds back the next one. With a shorter round trip, one
// message is in flight for a range; with a longer one, requests do not wait for the answers to earlier ones.
// Each message ends within Config.AskWait, so at most AskWait/pace of them are in flight.
const pace = 5 * time.Millisecond

// maxQueue bounds the decide requests that wait for one range, about 8 MiB beside the keys, which belong to the callers;
// at most half of them are about one key, or of one caller. 500 connections with pipelines of 64 checks fill it.
const maxQueue = 32768

// decideRequest is a request that waits for the leader's decision.
type decideRequest struct {
	ask      quota.Ask
	call     *pooled    // whose request it is; the waiting goroutine uses it
	at       quota.Time // when the wait began
	no       silence    // what it proves if no answer comes
	sent     bool       // a message carries it, or has carried it; guarded by askQueue.mu
	answer   quota.Answer
	err      error
	answered chan *decideRequest // of the caller
}

// askQueue batches the decide requests for one range: requests that arrive while a message is in flight
// leave together in the next one, within pace.
type askQueue struct {
	mu       sync.Mutex
	requests []*decideRequest
	keys     map[quota.Key]int // number of queued requests per key
	busy     bool              // a goroutine is sending
}

// add appends requests of one caller, and returns how many: the first ones. If start is true, the caller must start the
// sending goroutine. A key, and a caller, may take as many slots as they leave free.
func (q *askQueue) add(reqs []*decideRequest) (start bool, n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.keys == nil {
		q.keys = map[quota.Key]int{}
	}
	for _, req := range reqs {
		if max(n, q.keys[req.ask.Key]) >= maxQueue-len(q.requests) {
			break
		}
		q.keys[req.ask.Key]++
		q.requests = append(q.requests, req)
		n++
	}
	start, q.busy = !q.busy && n > 0, q.busy || n > 0
	return start, n
}

// cancel stops waiting for an answer. A request that has not been sent yet leaves the queue.
func (q *askQueue) cancel(req *decideRequest) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if req.sent {
		return errNoAnswer
	}
	q.requests = slices.DeleteFunc(q.requests, func(r *decideRequest) bool { return r == req })
	q.removed(req)
	return errNotAsked
}

// next removes the requests of the next message from the queue. If it returns nil, the queue is empty
// and the sending goroutine must end.
func (q *askQueue) next() []*decideRequest {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.requests), replica.MaxDecide)
	if n == 0 {
		q.busy, q.requests, q.keys = false, nil, nil
		return nil
	}
	// Messages may overtake each other: if the last caller's requests do not all fit, they all leave in the next message.
	if n < len(q.requests) {
		first := n
		for first > 0 && q.requests[first-1].answered == q.requests[n].answered {
			first--
		}
		if first > 0 {
			n = first
		}
	}
	batch := slices.Clone(q.requests[:n])
	q.requests = slices.Delete(q.requests, 0, n)
	for _, req := range batch {
		req.sent = true
		q.removed(req)
	}
	return batch
}

// removed notes that a request has left the queue. The caller holds q.mu.
func (q *askQueue) removed(req *decideRequest) {
	if q.keys[req.ask.Key]--; q.keys[req.ask.Key] == 0 {
		delete(q.keys, req.ask.Key)
	}
}

// askAll sends queued requests, one message after the other, until the queue is empty. If a message is in flight for
// longer than pace, another goroutine sends the next one.
func (d *Decider) askAll(r quota.RangeID, q *askQueue) {
	for batch := q.next(); batch != nil; batch = q.next() {
		late := time.AfterFunc(pace, func() { d.spawn(func() { d.askAll(r, q) }) })
		d.deliver(r, batch)
		if !late.Stop() {
			return
		}
	}
}

// deliver sends requests to the leader in one message and hands out the answers.
func (d *Decider) deliver(r quota.RangeID, batch []*decideRequest) {
	if own := d.cfg.Replicas.Of(r); own.Leads() { // it is busy, or waits for its log: see askHere
		asks := make([]quota.Ask, len(batch))
		for i, req := range batch {
			asks[i] = req.ask
		}
		if own.Decide(asks, func(i int, a quota.Answer) {
			batch[i].answer = a
			batch[i].answered <- batch[i]
		}) {
			return
		}
	}
	answers, err := d.askLeader(r, batch)
	for i, req := range batch {
		if req.err = err; err == nil {
			req.answer = answers[i]
		}
		req.answered <- req
	}
}

// askLeader asks the leader, another node, in one message.
func (d *Decider) askLeader(r quota.RangeID, batch []*decideRequest) ([]quota.Answer, error) {
	to := d.node.Leader(r)
	if to == "" || to == d.cfg.Self {
		return nil, errNotAsked
	}
	msg := &peerv1.CallAsk{Range: uint32(r), Incarnation: uint64(batch[0].ask.Incarnation)}
	for _, req := range batch {
		msg.Asks = append(msg.Asks, peerproto.EncodeAsk(&req.ask))
	}
	ctx, cancel := context.WithTimeout(d.ctx, d.cfg.AskWait)
	defer cancel()
	c, err := d.node.Call(ctx, to, &peerv1.Call{Body: &peerv1.Call_Ask{Ask: msg}})
	switch {
	case err != nil && transport.Unsent(err):
		return nil, errNotAsked
	case err != nil:
		return nil, errNoAnswer
	}
	answers := c.GetAskResult().GetAnswers()
	switch len(answers) {
	case len(batch):
		out := make([]quota.Answer, len(answers))
		for i, a := range answers {
			out[i] = peerproto.DecodeAnswer(a)
		}
		return out, nil
	case 0: // the node no longer leads the range
		return nil, errNotAsked
	}
	return nil, errNoAnswer
}
