package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/cluster/members"
	"github.com/quorate/quorate/internal/quota"
)

// levelWait is how long a change waits for the membership of a cluster that has
// just started: the mover makes it within moveEvery once all nodes are here.
const levelWait = 3 * time.Second

// membershipLevel is the feature level that brought memberships, bindings, tokens and
// backups. It stays 1 when members.Level goes on.
const membershipLevel = 1

// levelled says whether every node understands what feature level 1 brought:
// entries of the log that an earlier version skips, and whose effect it would lack
// for ever.
func (n *Node) levelled() bool { return n.meta.members.Load().Level() >= membershipLevel }

// awaitLevel returns nil once what needs feature level 1 may be proposed. While a
// node of an earlier version is connected it is refused at once, with the names;
// while others have yet to come, after three seconds.
func (n *Node) awaitLevel(ctx context.Context, what string) error {
	ctx, cancel := context.WithTimeout(ctx, levelWait)
	defer cancel()
	for !n.levelled() {
		if old := n.earlier(); len(old) > 0 {
			return tooEarly("%s needs feature level %d, which the cluster has when every node runs this version or a later one: upgrade %v first", what, membershipLevel, old)
		}
		select {
		case <-ctx.Done():
			return n.notLevelled(what)
		case <-time.After(retryPause):
		}
	}
	return nil
}

func (n *Node) notLevelled(what string) error {
	if n.routes.metaLeader() == "" {
		return &NoLeaderError{what + ": the meta group has no leader"}
	}
	if away := n.routes.where(func(p *peer) bool { return !p.up }); len(away) > 0 {
		slices.Sort(away)
		return tooEarly("%s needs feature level %d, which the cluster has once every node has been here with this version or a later one: %v not connected yet", what, membershipLevel, away)
	}
	return &NoLeaderError{what + ": the membership is not made yet"}
}

// earlier are the connected nodes of an earlier version.
func (n *Node) earlier() []quota.NodeID {
	old := slices.DeleteFunc(n.routes.upNodes(), func(id quota.NodeID) bool { return n.net.LevelOf(id) >= membershipLevel })
	slices.Sort(old)
	return old
}

func tooEarly(format string, args ...any) error {
	return &members.Error{Kind: members.Forbidden, Text: fmt.Sprintf(format, args...)}
}
