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

var (
	errNotAsked = errors.New("the leader of the key's range cannot be asked")
	errNoAnswer = errors.New("the leader did not answer in time")
)

// ask has the leader of the key's range decide: here, if this node
// leads it, else in one hop. errNotAsked means that the leader has not booked
// it and will not, errNoAnswer that it may have, or may yet. Nobody asks twice.
func (d *Decider) ask(a quota.Ask) (quota.Answer, error) {
	r := shard.Of(a.Key, d.cfg.Ranges)
	if out := d.cfg.Replicas.Of(r).Decide([]quota.Ask{a}); out != nil {
		return out[0], nil
	}
	q := &d.queues[r]
	req := &decideRequest{ask: a, done: make(chan struct{})}
	start, ok := q.add(req)
	if !ok {
		return quota.Answer{}, errNotAsked
	}
	if start {
		go d.askAll(r, q)
	}
	timer := time.NewTimer(d.cfg.AskWait)
	defer timer.Stop()
	select {
	case <-req.done:
		return req.answer, req.err
	case <-timer.C:
		return quota.Answer{}, q.cancel(req)
	case <-d.stop:
		return quota.Answer{}, errNotAsked
	}
}

// askUnless asks unless the range is one whose leader is not to be asked, and adds it if it could
// not be asked.
func (d *Decider) askUnless(unasked *sync.Map, a quota.Ask) (quota.Answer, error) {
	if unasked == nil {
		return d.ask(a)
	}
	r := shard.Of(a.Key, d.cfg.Ranges)
	if _, is := unasked.Load(r); is {
		return quota.Answer{}, errNotAsked
	}
	out, err := d.ask(a)
	if err != nil {
		unasked.Store(r, true)
	}
	return out, err
}

// maxQueue bounds the decide requests that wait for one range; half of them may be about one key.
const maxQueue = 4096

// decideRequest waits for the leader's decision.
type decideRequest struct {
	ask    quota.Ask
	sent   bool // it is in a message, or has been; guarded by askQueue.mu
	answer quota.Answer
	err    error
	done   chan struct{}
}

// askQueue gathers the decide requests for one range. One message is under way at a
// time: what comes meanwhile leaves together in the next.
type askQueue struct {
	mu       sync.Mutex
	requests []*decideRequest
	keys     map[quota.Key]int // how many of them are about each
	busy     bool              // a goroutine sends them
}

// add appends a request. start says that the caller has to start the goroutine that sends. A key may have
// as many places as are free, so that one that many callers ask for leaves some for others.
func (q *askQueue) add(req *decideRequest) (start, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.keys[req.ask.Key] >= maxQueue-len(q.requests) {
		return false, false
	}
	if q.keys == nil {
		q.keys = map[quota.Key]int{}
	}
	q.keys[req.ask.Key]++
	q.requests = append(q.requests, req)
	start, q.busy = !q.busy, true
	return start, true
}

// cancel ends the wait for an answer: a request that has not been sent is not.
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

// next takes the requests of the next message out of the queue; none, after which the goroutine
// that sends has to end, if there are none.
func (q *askQueue) next() []*decideRequest {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.requests), replica.MaxDecide)
	if n == 0 {
		q.busy, q.requests, q.keys = false, nil, nil
		return nil
	}
	batch := slices.Clone(q.requests[:n])
	q.requests = slices.Delete(q.requests, 0, n)
	for _, req := range batch {
		req.sent = true
		q.removed(req)
	}
	return batch
}

// removed notes that a request is no more in the queue. q.mu is held.
func (q *askQueue) removed(req *decideRequest) {
	if q.keys[req.ask.Key]--; q.keys[req.ask.Key] == 0 {
		delete(q.keys, req.ask.Key)
	}
}

// askAll sends what is queued until there is nothing left.
func (d *Decider) askAll(r quota.RangeID, q *askQueue) {
	for batch := q.next(); batch != nil; batch = q.next() {
		answers, err := d.askLeader(r, batch)
		for i, req := range batch {
			if req.err = err; err == nil {
				req.answer = peerproto.DecodeAnswer(answers[i])
			}
			close(req.done)
		}
	}
}

func (d *Decider) askLeader(r quota.RangeID, batch []*decideRequest) ([]*peerv1.AskAnswer, error) {
	to := d.node.Leader(r)
	if to == "" || to == d.cfg.Self {
		return nil, errNotAsked
	}
	msg := &peerv1.CallAsk{Range: uint32(r), Incarnation: uint64(batch[0].ask.Incarnation)}
	for _, req := range batch {
		msg.Asks = append(msg.Asks, peerproto.EncodeAsk(&req.ask))
	}
	ctx, cancel := context.WithTimeout(context.Background(), d.cfg.AskWait)
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
		return answers, nil
	case 0: // it no longer leads the range
		return nil, errNotAsked
	}
	return nil, errNoAnswer
}
