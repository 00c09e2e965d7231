package cluster

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

// maxAsking bounds the questions that wait for one range; half of them may be about one key.
const maxAsking = 4096

var (
	errNotAsked = errors.New("the leader of the key's range cannot be asked")
	errAskLost  = errors.New("the leader did not answer in time")
)

// question waits for an answer.
type question struct {
	ask    quota.Ask
	sent   bool // it is in a message, or has been; guarded by asker.mu
	answer quota.Answer
	err    error
	done   chan struct{}
}

// asker gathers the questions for one range. One message is under way at a
// time: what is asked meanwhile leaves together in the next.
type asker struct {
	mu    sync.Mutex
	queue []*question
	keys  map[quota.Key]int // how many of them are about each
	busy  bool
}

// add puts a question into the queue. A key may have as many places as are free, so that one
// that many callers ask for leaves some for others.
func (a *asker) add(p *question) bool {
	if a.keys[p.ask.Key] >= maxAsking-len(a.queue) {
		return false
	}
	if a.keys == nil {
		a.keys = map[quota.Key]int{}
	}
	a.keys[p.ask.Key]++
	a.queue = append(a.queue, p)
	return true
}

// left notes that a question is no more in the queue.
func (a *asker) left(p *question) {
	if a.keys[p.ask.Key]--; a.keys[p.ask.Key] == 0 {
		delete(a.keys, p.ask.Key)
	}
}

// ask puts a question to the leader of the key's range: here, if this node
// leads it, else in one hop. errNotAsked means that the leader has not booked
// it and will not, errAskLost that it may have, or may yet. Nobody asks twice.
func (n *Node) ask(q quota.Ask) (quota.Answer, error) {
	r := shard.Of(q.Key, n.cfg.Ranges)
	if out := n.ranges.Of(r).Decide([]quota.Ask{q}); out != nil {
		return out[0], nil
	}
	p := &question{ask: q, done: make(chan struct{})}
	if !n.enqueue(r, p) {
		return quota.Answer{}, errNotAsked
	}
	timer := time.NewTimer(n.cfg.AskWait)
	defer timer.Stop()
	select {
	case <-p.done:
		return p.answer, p.err
	case <-timer.C:
		return quota.Answer{}, n.leave(r, p)
	case <-n.stop:
		return quota.Answer{}, errNotAsked
	}
}

// askUnless asks unless the range is one whose leader is not to be asked, and adds it if it could
// not be asked.
func (n *Node) askUnless(unasked *sync.Map, q quota.Ask) (quota.Answer, error) {
	if unasked == nil {
		return n.ask(q)
	}
	r := shard.Of(q.Key, n.cfg.Ranges)
	if _, is := unasked.Load(r); is {
		return quota.Answer{}, errNotAsked
	}
	a, err := n.ask(q)
	if err != nil {
		unasked.Store(r, true)
	}
	return a, err
}

func (n *Node) enqueue(r quota.RangeID, p *question) bool {
	a := &n.askers[r]
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.add(p) {
		return false
	}
	if !a.busy {
		a.busy = true
		go n.runAsker(r)
	}
	return true
}

// leave ends the wait for an answer: a question that has not left does not.
func (n *Node) leave(r quota.RangeID, p *question) error {
	a := &n.askers[r]
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.sent {
		return errAskLost
	}
	a.queue = slices.DeleteFunc(a.queue, func(q *question) bool { return q == p })
	a.left(p)
	return errNotAsked
}

// next takes the questions of the next message out of the queue; none ends the
// asker.
func (a *asker) next() []*question {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := min(len(a.queue), replica.MaxDecide)
	if n == 0 {
		a.busy, a.queue, a.keys = false, nil, nil
		return nil
	}
	batch := slices.Clone(a.queue[:n])
	a.queue = slices.Delete(a.queue, 0, n)
	for _, p := range batch {
		p.sent = true
		a.left(p)
	}
	return batch
}

// runAsker sends what is queued until there is nothing left.
func (n *Node) runAsker(r quota.RangeID) {
	for {
		batch := n.askers[r].next()
		if len(batch) == 0 {
			return
		}
		n.sendAsks(r, batch)
	}
}

func (n *Node) sendAsks(r quota.RangeID, batch []*question) {
	answers, err := n.askLeader(r, batch)
	for i, p := range batch {
		if p.err = err; err == nil {
			p.answer = peerproto.DecodeAnswer(answers[i])
		}
		close(p.done)
	}
}

func (n *Node) askLeader(r quota.RangeID, batch []*question) ([]*peerv1.AskAnswer, error) {
	to := n.routes.leader(r)
	if to == "" || to == n.cfg.Self {
		return nil, errNotAsked
	}
	msg := &peerv1.CallAsk{Range: uint32(r), Incarnation: uint64(batch[0].ask.Incarnation)}
	for _, p := range batch {
		msg.Asks = append(msg.Asks, peerproto.EncodeAsk(&p.ask))
	}
	ctx, cancel := context.WithTimeout(context.Background(), n.cfg.AskWait)
	defer cancel()
	c, err := n.call(ctx, to, &peerv1.Call{Body: &peerv1.Call_Ask{Ask: msg}})
	switch {
	case err != nil && transport.Unsent(err):
		return nil, errNotAsked
	case err != nil:
		return nil, errAskLost
	}
	answers := c.GetAskResult().GetAnswers()
	switch len(answers) {
	case len(batch):
		return answers, nil
	case 0: // it no longer leads the range
		return nil, errNotAsked
	}
	return nil, errAskLost
}
