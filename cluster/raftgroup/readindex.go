package raftgroup

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// readIndex shares one round to a quorum among all callers that wait for it, and records for each
// follower the round in which it last answered.
//
// Raft's own VerifyLeader is not enough: it counts every answer that arrives after the call, even
// one to a much older heartbeat. A leader process that was suspended finds such answers when it
// resumes, while the others have elected a new leader.
type readIndex struct {
	sent    atomic.Uint64 // newest round; messages sent to followers belong to it
	running atomic.Bool   // a round is in progress: heartbeats do not wait
	answers sync.Map      // quota.NodeID -> ack

	mu   sync.Mutex
	next *round // the next round; nil if none is waited for
	busy bool   // a goroutine runs rounds
}

// roundAnswer is a follower's last successful answer.
type roundAnswer struct {
	term, round uint64
	at          time.Time
}

// round is one exchange with a quorum, shared by the callers that arrived before it began.
type round struct {
	done chan struct{}
	err  error
}

// round returns the current round, to which messages sent now belong.
func (c *readIndex) round() uint64 {
	if c == nil { // a transport outside a group
		return 0
	}
	return c.sent.Load()
}

// noteAnswer records an answer. It proves that the follower accepted this replica as the leader
// of that term at some time after the round began.
func (c *readIndex) noteAnswer(id quota.NodeID, term, number uint64) {
	if c != nil {
		c.answers.Store(id, roundAnswer{term, number, time.Now()})
	}
}

// recent reports whether the follower has answered this leader within the given time.
func (c *readIndex) recent(id quota.NodeID, term uint64, within time.Duration) bool {
	v, _ := c.answers.Load(id)
	a, _ := v.(roundAnswer)
	return a.term == term && time.Since(a.at) < within
}

// urgent reports that a round waits for heartbeats.
func (c *readIndex) urgent() bool { return c != nil && c.running.Load() }

// answered returns when the follower last answered this leader; zero if it never did.
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

// hasAnswered reports whether the follower has answered in that round or a later one.
func (c *readIndex) hasAnswered(id quota.NodeID, term, number uint64) bool {
	v, ok := c.answers.Load(id)
	if !ok {
		return false
	}
	a, _ := v.(roundAnswer)
	return a.term == term && a.round >= number
}

// ConfirmLeadership implements the first half of a linearizable read by Raft's read index. It
// returns nil if this replica led at some moment after the call began; a read of its state
// machine is then linearizable. The state includes every write that was acknowledged before the
// call: writes of this term are acknowledged after this replica applies them, and those of
// earlier terms precede the barrier, without which this replica does not serve. Writes that are
// committed but not acknowledged yet may be missing. The call costs one round to a quorum, shared
// by all waiting calls, and writes nothing to the log. Errors: ErrNotLeader, ErrClosed and the
// context's error.
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

// runRounds runs rounds as long as a caller waits for one.
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

// runRound runs one round. It makes raft send heartbeats now, then checks in the answers recorded
// by the transport whether a quorum has answered this round.
func (g *Group) runRound(number uint64) error {
	i := g.cur.Load()
	if i == nil || g.closed.Load() {
		return g.absent()
	}
	ctx, cancel := context.WithTimeout(i.trans.ctx, g.host.cfg.Timing.rpcTimeout())
	defer cancel()
	g.readIndex.running.Store(true) // before flushing the waiting heartbeats
	defer g.readIndex.running.Store(false)
	g.host.batcher.flushAll()
	for {
		_, term, serving := g.Leader()
		if !serving {
			return ErrNotLeader
		}
		if err := i.wait(ctx, i.raft.VerifyLeader()); err != nil {
			return fmt.Errorf("%w: %s", ErrNotLeader, err.Error()) // not wrapped: nothing was proposed, so nothing is uncertain
		}
		if g.quorum(term, number) {
			if _, now, serving := g.Leader(); !serving || now != term {
				return ErrNotLeader
			}
			return nil
		}
	}
}

// quorum reports whether a majority of the voters, including this replica, has answered in that
// round.
func (g *Group) quorum(term, number uint64) bool {
	votes, voters := 0, g.voters()
	for _, id := range voters {
		if id == g.host.cfg.Self || g.readIndex.hasAnswered(id, term, number) {
			votes++
		}
	}
	return votes > len(voters)/2
}
