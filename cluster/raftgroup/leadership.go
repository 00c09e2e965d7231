package raftgroup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/internal/backoff"
	"github.com/quorate/quorate/internal/quota"
)

// barrierRetry is the pause before proposing a failed barrier again.
const barrierRetry = 10 * time.Millisecond

var errOtherTerm = errors.New("barrier was applied in another term")

// watchLeadership reports every leadership change, in order, until raft has stopped. It is the
// only goroutine that calls the group's callbacks.
func (i *instance) watchLeadership() {
	var leader quota.NodeID
	leading := false
	// A replica that no leader reaches reports so once: other nodes may know a leader.
	noLeader := time.NewTimer(2 * i.group.host.cfg.Timing.Heartbeat)
	defer noLeader.Stop()
	for {
		select {
		case won := <-i.notify:
			if won {
				leading = true
				i.startLeading()
			} else if leading {
				leading = false
				i.stopLeading()
			}
		case <-noLeader.C:
			if _, id := i.raft.LeaderWithID(); id == "" && leader == "" {
				i.group.opts.OnLeader("")
			}
		case <-i.seen: // only a hint: the code below reads the leader
		case <-i.ended:
			if leading {
				i.stopLeading()
			}
			if leader != "" {
				i.group.opts.OnLeader("")
			}
			return
		}
		if _, id := i.raft.LeaderWithID(); quota.NodeID(id) != leader {
			leader = quota.NodeID(id)
			i.group.opts.OnLeader(leader)
		}
	}
}

// startLeading applies the barrier of the term and then calls OnLeading, unless leadership
// changes in the meantime. An unfit node first tries to transfer the group.
func (i *instance) startLeading() {
	g := i.group
	if g.host.cfg.Unfit() {
		ctx, cancel := context.WithTimeout(i.trans.ctx, 2*g.host.cfg.Timing.rpcTimeout())
		g.transferAway(ctx)
		cancel()
	}
	for i.raft.State() == raft.Leader && len(i.notify) == 0 {
		term := i.raft.CurrentTerm()
		err := i.barrier(term)
		if err == nil && len(i.notify) == 0 {
			g.serving.Store(term)
			g.log.Debug("leading", "term", term) // OnLeading logs it at info
			g.opts.OnLeading(term)
			return
		}
		if err != nil {
			g.log.Debug("barrier failed", "term", term, "err", err)
		}
		if backoff.Sleep(i.trans.ctx, barrierRetry) != nil {
			return
		}
	}
}

func (i *instance) stopLeading() {
	i.group.serving.Store(0)
	i.group.opts.OnFollowing()
}

// barrier proves that this replica leads in the term and has applied everything committed before
// it.
func (i *instance) barrier(term uint64) error {
	ctx, cancel := context.WithTimeout(i.trans.ctx, 10*i.group.host.cfg.Timing.Election)
	defer cancel()
	a, err := i.group.apply(ctx, i.group.opts.FirstEntry())
	if err == nil && a.term != term {
		err = fmt.Errorf("%w: proposed in %d, applied in %d", errOtherTerm, term, a.term)
	}
	return err
}
