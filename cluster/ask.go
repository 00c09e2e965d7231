package cluster

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
	"github.com/quorate/quorate/shard"
)

// Bounds of questions to leaders.
const (
	maxAsking   = 4096 // questions that wait for one range; half of them may be about one key
	maxAskBatch = 512  // questions in one message
)

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
	if s := n.seats[r]; s != nil {
		if out := s.answer([]quota.Ask{q}); out != nil {
			return out[0], nil
		}
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
	n := min(len(a.queue), maxAskBatch)
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
			p.answer = decodeAnswer(answers[i])
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
		msg.Asks = append(msg.Asks, encodeAsk(&p.ask))
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

// answerAsks decides a peer's questions, if this node leads the range.
func (n *Node) answerAsks(from quota.NodeID, msg *peerv1.CallAsk) *peerv1.CallAskResult {
	out := &peerv1.CallAskResult{}
	s := n.seats[quota.RangeID(msg.Range)]
	if s == nil || len(msg.Asks) > maxAskBatch {
		return out
	}
	asks := make([]quota.Ask, len(msg.Asks))
	for i, a := range msg.Asks {
		asks[i] = decodeAsk(a)
		asks[i].From, asks[i].Incarnation = from, quota.Incarnation(msg.Incarnation)
	}
	for _, a := range s.answer(asks) {
		out.Answers = append(out.Answers, encodeAnswer(a))
	}
	return out
}

// answer decides questions; nil if this node does not lead the range. What the log has
// to grant first waits for that, three quarters of the time that callers do.
func (s *seat) answer(asks []quota.Ask) []quota.Answer {
	out, open := make([]quota.Answer, len(asks)), make([]int, len(asks))
	for i := range asks {
		open[i] = i
	}
	timer := time.NewTimer(s.node.cfg.AskWait * 3 / 4)
	defer timer.Stop()
	for {
		var committed chan struct{}
		led := s.with(func(l *leader.Ledger, now quota.Time) {
			again := make([]quota.Ask, len(open))
			for i, at := range open {
				again[i] = asks[at]
			}
			var wait []int
			for i, a := range l.Ask(now, again) {
				if out[open[i]] = a; a.Unsaved {
					wait = append(wait, open[i])
				}
			}
			if open = wait; len(open) > 0 && s.committed == nil {
				s.committed = make(chan struct{})
			}
			committed = s.committed
		})
		switch {
		case !led && len(open) == len(asks):
			return nil
		case !led || len(open) == 0:
			return out
		}
		s.hasten()
		select {
		case <-committed:
		case <-timer.C:
			return out
		case <-s.node.stop:
			return out
		}
	}
}

func encodeAsk(a *quota.Ask) *peerv1.Ask {
	return &peerv1.Ask{
		Namespace: a.Key.Namespace, Limit: a.Key.Limit, Key: a.Key.Key,
		Cost: int64(a.Cost), MaxWaitNanos: int64(a.MaxWait), Force: a.Force, Overdrawn: int64(a.Overdrawn),
		Id: uint64(a.ID),
	}
}

func decodeAsk(a *peerv1.Ask) quota.Ask {
	return quota.Ask{
		Key: key(a.GetNamespace(), a.GetLimit(), a.GetKey()), Cost: quota.Units(a.GetCost()),
		MaxWait: time.Duration(a.GetMaxWaitNanos()), Force: a.GetForce(), Overdrawn: quota.Units(a.GetOverdrawn()),
		ID: quota.Seq(a.GetId()),
	}
}

func encodeAnswer(a quota.Answer) *peerv1.AskAnswer {
	return &peerv1.AskAnswer{
		Term: uint64(a.Term), Allowed: a.Allowed, Why: uint32(a.Why), WaitNanos: int64(a.Wait), Level: int64(a.Level),
		RetryAfterNanos: int64(a.RetryAfter), ResetAfterNanos: int64(a.ResetAfter), Aside: int64(a.Aside), WindowStartUnixNanos: int64(a.WindowStart),
	}
}

func decodeAnswer(a *peerv1.AskAnswer) quota.Answer {
	return quota.Answer{
		Term: quota.Term(a.GetTerm()), Allowed: a.GetAllowed(), Why: quota.Why(min(a.GetWhy(), 255)), Wait: time.Duration(a.GetWaitNanos()), Level: quota.Units(a.GetLevel()),
		RetryAfter: time.Duration(a.GetRetryAfterNanos()), ResetAfter: time.Duration(a.GetResetAfterNanos()), Aside: quota.Units(min(max(0, a.GetAside()), int64(quota.Most))),
		WindowStart: quota.Time(a.GetWindowStartUnixNanos()),
	}
}
