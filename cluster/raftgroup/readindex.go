package raftgroup

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// readIndex shares one round to a quorum between all that wait for it, and
// remembers which follower has answered what was sent in which round.
//
// Raft's own VerifyLeader is not enough: it counts any answer that arrives after
// the question, also one to a heartbeat of long before. A leader that was stopped
// finds such answers when it goes on, while others have elected another.
type readIndex struct {
	sent    atomic.Uint64 // newest round; what is sent to followers is of this one
	running atomic.Bool   // one is under way: heartbeats wait for nothing
	answers sync.Map      // quota.NodeID -> ack

	mu   sync.Mutex
	next *round // the one that forms; nil if nobody waits for it
	busy bool   // one is under way
}

// roundAnswer is what a follower has answered last with success.
type roundAnswer struct {
	term, round uint64
	at          time.Time
}

// round is one exchange with a quorum, shared by the callers that came before it began.
type round struct {
	done chan struct{}
	err  error
}

// round is that of what is sent now.
func (c *readIndex) round() uint64 {
	if c == nil { // a transport outside a group
		return 0
	}
	return c.sent.Load()
}

// noteAnswer keeps an answer: the follower held this replica for the leader of that
// term at some time after the round had begun.
func (c *readIndex) noteAnswer(id quota.NodeID, term, number uint64) {
	if c != nil {
		c.answers.Store(id, roundAnswer{term, number, time.Now()})
	}
}

// recent says whether the follower has answered this leader of late.
func (c *readIndex) recent(id quota.NodeID, term uint64, within time.Duration) bool {
	v, _ := c.answers.Load(id)
	a, _ := v.(roundAnswer)
	return a.term == term && time.Since(a.at) < within
}

// urgent says that a round waits for heartbeats.
func (c *readIndex) urgent() bool { return c != nil && c.running.Load() }

// answered is when the follower answered this leader last; zero if it never did.
func (c *readIndex) answered(id quota.NodeID, term uint64) time.Time {
	if c == nil {
		return time.Time{}
	}
	if v, ok := c.answers.Load(id); ok {
		if a, _ := v.(roundAnswer); a.term == term {
			return a.at
		}
	}
	return time.Time{}
}

// hasAnswered says whether the follower has answered in that round or a later one.
func (c *readIndex) hasAnswered(id quota.NodeID, term, number uint64) bool {
	v, ok := c.answers.Load(id)
	if !ok {
		return false
	}
	a, _ := v.(roundAnswer)
	return a.term == term && a.round >= number
}

// ConfirmLeadership is the first half of a read by Raft's read index. It returns nil when
// this replica led at a moment after the call began: what its state machine holds then is
// linearizable. For every write that was answered before the
// call is in it: those of this term are answered after they are applied here, and those of
// earlier terms lie before the barrier, without which this replica does not serve. Writes
// that are committed and not answered yet may be missing. It costs a round to a quorum, which all calls that wait
// share, and nothing in the log. Errors: ErrNotLeader, ErrClosed, the context's.
func (g *Group) ConfirmLeadership(ctx context.Context) error {
	c := &g.readIndex
	c.mu.Lock()
	r := c.next
	if r == nil {
		r = &round{done: make(chan struct{})}
		c.next = r
	}
	if !c.busy {
		c.busy = true
		go g.runRounds()
	}
	c.mu.Unlock()
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// runRounds holds rounds as long as somebody waits for one.
func (g *Group) runRounds() {
	c := &g.readIndex
	for {
		c.mu.Lock()
		r := c.next
		c.next = nil
		c.busy = r != nil
		c.mu.Unlock()
		if r == nil {
			return
		}
		r.err = g.runRound(c.sent.Add(1))
		close(r.done)
	}
}

// runRound holds one round. Raft is asked to send heartbeats now; whether these
// have been answered is looked up in what the transport has seen.
func (g *Group) runRound(number uint64) error {
	i := g.cur.Load()
	if i == nil || g.closed.Load() {
		return g.absent()
	}
	ctx, cancel := context.WithTimeout(i.trans.ctx, g.host.cfg.Timing.rpcTimeout())
	defer cancel()
	g.readIndex.running.Store(true) // before those that wait are sent off
	defer g.readIndex.running.Store(false)
	g.host.batcher.flushAll()
	for {
		_, term, serving := g.Leader()
		if !serving {
			return ErrNotLeader
		}
		if err := i.wait(ctx, i.raft.VerifyLeader()); err != nil {
			return fmt.Errorf("%w: %s", ErrNotLeader, err.Error()) // not wrapped: nothing was asked of the log, so nothing is uncertain
		}
		if g.quorum(term, number) {
			if _, now, serving := g.Leader(); !serving || now != term {
				return ErrNotLeader
			}
			return nil
		}
	}
}

// quorum says whether enough voters have answered in that round, this one
// included.
func (g *Group) quorum(term, number uint64) bool {
	votes, voters := 0, g.voters()
	for _, id := range voters {
		if id == g.host.cfg.Self || g.readIndex.hasAnswered(id, term, number) {
			votes++
		}
	}
	return votes > len(voters)/2
}
