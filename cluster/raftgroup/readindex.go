package raftgroup

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/backoff"
	"github.com/quorate/quorate/internal/quota"
)

// readIndex shares one round to a quorum among all callers that wait for it. It also records for
// each follower when it last answered raft.
//
// Raft's own VerifyLeader is not enough: it counts every answer that arrives after the call, even
// one to a much older heartbeat. A leader process that was suspended finds such answers when it
// resumes, while the others have elected a new leader. A leader's lease is not enough either: a
// follower that has just started again does not know the leader, and votes for another one at once.
type readIndex struct {
	rounds  atomic.Uint64 // rounds begun
	answers sync.Map      // quota.NodeID -> lastAnswer

	mu   sync.Mutex
	next *round // the next round; nil if none is waited for
	busy bool   // a goroutine runs rounds
}

// lastAnswer is a follower's last successful answer to raft.
type lastAnswer struct {
	term uint64
	at   time.Time
}

// round is one exchange with a quorum, shared by the callers that arrived before it began.
type round struct {
	done chan struct{}
	err  error
}

// noteAnswer records an answer: the follower has accepted this replica as the leader of that term.
func (c *readIndex) noteAnswer(id quota.NodeID, term uint64) {
	if c != nil {
		c.answers.Store(id, lastAnswer{term, time.Now()})
	}
}

// recent reports whether the follower has answered this leader within the given time.
func (c *readIndex) recent(id quota.NodeID, term uint64, within time.Duration) bool {
	return time.Since(c.answered(id, term)) < within
}

// answered returns when the follower last answered this leader; zero if it never did.
func (c *readIndex) answered(id quota.NodeID, term uint64) time.Time {
	if c == nil {
		return time.Time{}
	}
	if v, ok := c.answers.Load(id); ok {
		if a, _ := v.(lastAnswer); a.term == term {
			return a.at
		}
	}
	return time.Time{}
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
		c.rounds.Add(1)
		r.err = g.runRound()
		close(r.done)
	}
}

// askRetry is the pause before a round asks again those that did not answer.
const askRetry = 10 * time.Millisecond

// runRound runs one round: it asks the other voters until a quorum has answered, or this replica
// does not lead any more.
func (g *Group) runRound() error {
	i := g.cur.Load()
	if i == nil || g.closed.Load() {
		return g.whyUnavailable()
	}
	t := g.host.cfg.Timing
	ctx, cancel := context.WithTimeout(i.trans.ctx, t.rpcTimeout())
	defer cancel()
	for {
		_, term, serving := g.Leader()
		if !serving {
			return ErrNotLeader
		}
		confirmed := i.trans.confirm(ctx, term, g.voters())
		if _, now, serving := g.Leader(); !serving || now != term {
			return ErrNotLeader
		}
		if confirmed {
			return nil
		}
		if backoff.Sleep(ctx, askRetry) != nil {
			return fmt.Errorf("%w: no quorum answers", ErrNotLeader) // nothing was proposed, so nothing is uncertain
		}
	}
}

// confirm sends a heartbeat to the other voters, and reports whether a quorum, with this replica,
// accepts it as the leader of the term. It sends them past raft, whose loops would cost more than
// the question; to the others, they are heartbeats like any other. Raft's own continue as before:
// its lease does not learn of these.
func (t *raftTransport) confirm(ctx context.Context, term uint64, voters []quota.NodeID) bool {
	if ctx.Err() != nil || t.stalled != nil && t.stalled() {
		return false // a failed replica sends nothing
	}
	ctx, cancel := context.WithTimeout(ctx, t.timing.Heartbeat/5)
	defer cancel()
	frame := t.heartbeat(term)
	answers, votes := make(chan bool, len(voters)), 0
	for _, id := range voters {
		if id == t.self {
			answers <- true
			continue
		}
		asked := t.net.Ask(id, peerv1.Lane_LANE_CONTROL, frame)
		go func() {
			f, err := asked[0].Wait(ctx)
			r := f.GetRaft().GetAppendEntriesResult()
			answers <- err == nil && r.GetSuccess() && r.GetTerm() == term
		}()
	}
	for range voters {
		if <-answers {
			votes++
		}
		if votes > len(voters)/2 {
			return true
		}
	}
	return false
}

// heartbeat returns a heartbeat as raft sends it.
func (t *raftTransport) heartbeat(term uint64) *peerv1.Frame {
	args := &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(t.self), Addr: []byte(t.self)}, Term: term,
	}
	return &peerv1.Frame{Body: &peerv1.Frame_Raft{Raft: &peerv1.Raft{Group: t.group, Message: &peerv1.Raft_AppendEntries{AppendEntries: appendOut(args)}}}}
}
