package raftgroup

import (
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/internal/quota"
)

// Timing of forced elections.
const (
	rankStep    = 30 * time.Millisecond // delay between consecutive survivors
	forceLength = time.Second           // how long the timeouts stay lowered
	pollPeers   = 5 * time.Millisecond
	waitPeers   = 10 * time.Second       // after that, ordinary timers decide
	waitOthers  = 100 * time.Millisecond // extra wait for the remaining voters once a quorum is connected
)

// forceElection makes a follower campaign now, rather than at its timeout, if it has not heard
// from a leader for the lease duration. Lowering the timeout fires raft's timer.
func (i *instance) forceElection() {
	i.reloading.Lock()
	defer i.reloading.Unlock()
	fast := i.base
	fast.HeartbeatTimeout, fast.ElectionTimeout = i.group.host.cfg.Timing.Lease, i.group.host.cfg.Timing.Lease
	i.reloadBase() // raft fires the timer only on a change
	if err := i.raft.ReloadConfig(fast); err != nil {
		i.group.log.Error("cannot force an election", "err", err)
	}
}

// resetTimeouts restores the regular timeouts.
func (i *instance) resetTimeouts() {
	i.reloading.Lock()
	defer i.reloading.Unlock()
	i.reloadBase()
}

func (i *instance) reloadBase() {
	if err := i.raft.ReloadConfig(i.base); err != nil {
		i.group.log.Error("cannot restore timeouts", "err", err)
	}
}

// campaignFirst runs the preferred leader's first election after the process starts. It campaigns
// as soon as a quorum is connected, unless there is a leader.
func (g *Group) campaignFirst(i *instance) {
	if i == nil || !g.awaitQuorum(i) {
		return
	}
	i.forceElection()
	g.host.sleep(forceLength)
	i.resetTimeouts()
}

// awaitQuorum waits until a quorum of voters is connected, and a little longer for all of them.
// It returns false if there is a leader, this node is not a voter, the host closes or the wait
// times out.
func (g *Group) awaitQuorum(i *instance) bool {
	end, quorumAt := time.Now().Add(waitPeers), time.Time{}
	for time.Now().Before(end) {
		if _, id := i.raft.LeaderWithID(); id != "" {
			return false
		}
		voters := g.voters()
		if !slices.Contains(voters, g.host.cfg.Self) {
			return false
		}
		connected := 0
		for _, id := range voters {
			if id == g.host.cfg.Self || g.host.cfg.Net.Connected(id) {
				connected++
			}
		}
		if connected == len(voters) {
			return true
		}
		if connected > len(voters)/2 {
			if quorumAt.IsZero() {
				quorumAt = time.Now()
			} else if time.Since(quorumAt) > waitOthers {
				return true
			}
		}
		if !g.host.sleep(pollPeers) {
			return false
		}
	}
	return false
}

// PeerDead makes the groups that the given node led elect new leaders now. Call it on
// transport.Dead and transport.Refused, when the node's process is gone or probably gone. If the
// process is alive after all, leaders move and nothing is lost. A timeout alone does not prove
// death.
func (h *Host) PeerDead(id quota.NodeID) {
	h.spawn(func() { h.forceElections(id) })
}

// forceElections forces elections in the groups that the dead node led. It waits until the dead
// node's lease has certainly expired, then lets one rank of survivors campaign after the other.
func (h *Host) forceElections(dead quota.NodeID) {
	plan := h.electionRanks(dead)
	if len(plan) == 0 || !h.sleep(h.cfg.Timing.Lease*105/100) {
		return
	}
	var forced []*instance
	for _, groups := range plan {
		for _, g := range groups {
			i := g.cur.Load()
			if i == nil {
				continue
			}
			if _, leader := i.raft.LeaderWithID(); leader == "" || quota.NodeID(leader) == dead {
				i.forceElection()
				forced = append(forced, i)
			}
		}
		if !h.sleep(rankStep) {
			return
		}
	}
	h.log.Info("elections forced", "dead", dead, "groups", len(forced))
	h.sleep(forceLength)
	for _, i := range forced {
		i.resetTimeouts()
	}
}

// electionRanks returns the groups that the dead node led, indexed by this node's rank among the
// surviving voters.
func (h *Host) electionRanks(dead quota.NodeID) [][]*Group {
	var plan [][]*Group
	for _, g := range h.all() {
		i := g.cur.Load()
		if i == nil || !g.isVoter(h.cfg.Self) {
			continue
		}
		if _, leader := i.raft.LeaderWithID(); leader != raft.ServerID(dead) {
			continue
		}
		rank := slices.Index(g.successors(dead), h.cfg.Self)
		if rank < 0 {
			continue // this node was removed a moment ago
		}
		for len(plan) <= rank {
			plan = append(plan, nil)
		}
		plan[rank] = append(plan[rank], g)
	}
	return plan
}
