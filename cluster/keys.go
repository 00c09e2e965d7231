package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
	"github.com/quorate/quorate/shard"
)

// leaderWait is how long a question of a key waits for a leader: longer than a handover,
// and than an election after a crash as long as the machine is not busy.
const leaderWait = 3 * time.Second

// Key returns what the leaders know of a key: one line for each counter that a
// check of it charges, parents included. Empty if there is no such limit; a
// NoLeaderError if a counter's range has no leader that answers, for three seconds or
// until ctx ends.
func (n *Node) Key(ctx context.Context, k quota.Key) ([]*quoratev1.KeyRate, error) {
	return n.counters(ctx, k, false)
}

// ResetKey makes a key as good as new, in all tiers of its limit, parents
// excepted: full, without debt. What nodes hold of it stays theirs. It waits for a
// leader as Key does; after an error some tiers may have been reset.
func (n *Node) ResetKey(ctx context.Context, k quota.Key) error {
	_, err := n.counters(ctx, k, true)
	return err
}

func (n *Node) counters(ctx context.Context, k quota.Key, reset bool) ([]*quoratev1.KeyRate, error) {
	limits := n.meta.current()
	l, at := limits.Resolve(k.LimitName, k.Key)
	if l == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, leaderWait)
	defer cancel()
	var out []*quoratev1.KeyRate
	for _, c := range limits.Charges(l.LimitName) {
		if reset && c.Up > 0 {
			continue
		}
		rate, err := n.awaitCounter(ctx, quota.Key{LimitName: c.Limit.LimitName, Key: quota.ParentKey(at, c.Up)}, reset)
		if err != nil {
			return nil, err
		}
		out = append(out, rate)
	}
	return out, nil
}

// awaitCounter asks again while the range has no leader, until ctx ends.
func (n *Node) awaitCounter(ctx context.Context, k quota.Key, reset bool) (*quoratev1.KeyRate, error) {
	for {
		rate, err := n.counter(ctx, k, reset)
		if none := (*NoLeaderError)(nil); !errors.As(err, &none) {
			return rate, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(retryPause):
		}
	}
}

// counter asks the leader of one counter's range.
func (n *Node) counter(ctx context.Context, k quota.Key, reset bool) (*quoratev1.KeyRate, error) {
	ask := &peerv1.CallKeys{Reset_: reset, Keys: []*peerv1.CounterKey{{Namespace: k.Namespace, Limit: k.LimitName.Limit, Key: k.Key}}}
	res := n.ownCounters(ask)
	if len(res.Keys[0]) == 0 {
		r := shard.Of(k, n.cfg.Ranges)
		to := n.routes.leader(r)
		if to == "" || to == n.cfg.Self {
			return nil, &NoLeaderError{fmt.Sprintf("range %d, where %v is counted, has none just now", r, k)}
		}
		c, err := n.call(ctx, to, &peerv1.Call{Body: &peerv1.Call_Keys{Keys: ask}})
		if err != nil {
			return nil, &NoLeaderError{fmt.Sprintf("%s, which leads range %d, does not answer: %v", to, r, err)}
		}
		res = c.GetKeysResult()
	}
	if len(res.GetKeys()) != 1 || len(res.Keys[0]) == 0 {
		return nil, &NoLeaderError{fmt.Sprintf("the range of %v is changing its leader", k)}
	}
	out := &quoratev1.KeyRate{}
	return out, proto.Unmarshal(res.Keys[0], out)
}

// ownCounters answers for the ranges led here.
func (n *Node) ownCounters(ask *peerv1.CallKeys) *peerv1.CallKeysResult {
	out := &peerv1.CallKeysResult{Keys: make([][]byte, len(ask.Keys))}
	for i, c := range ask.Keys {
		k := key(c.Namespace, c.Limit, c.Key)
		s := n.seats[shard.Of(k, n.cfg.Ranges)]
		if s == nil {
			continue
		}
		s.with(func(l *leader.Ledger, now quota.Time) {
			if ask.Reset_ {
				l.Reset(now, k)
			}
			if rate, ok := l.Key(now, k); ok {
				out.Keys[i] = encode(n.keyRate(s, l.Term(), &rate))
			}
		})
	}
	return out
}
