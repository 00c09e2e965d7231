package rates

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/internal/backoff"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/shard"
)

// LeaderWait bounds how long a query for a key waits for a leader. It is longer than a handover, and
// than an election after a crash on a machine that is not busy.
const LeaderWait = 3 * time.Second

// retryPause is the pause between two attempts to reach a leader.
const retryPause = 50 * time.Millisecond

// Key returns what the leaders know about a key: one entry for each counter that a check of the key
// charges, parents included. It returns nothing if the limit does not exist, and a NoLeaderError if no
// leader of a counter's range answers within LeaderWait or before ctx ends.
func (s *Reader) Key(ctx context.Context, k quota.Key) ([]*quoratev1.KeyRate, error) {
	return s.counters(ctx, k, false)
}

// ResetKey resets a key in all tiers of its limit, except parents: it is full again, without debt.
// Nodes keep the tokens they hold of it. ResetKey waits for a leader as Key does. After an error, some
// tiers may have been reset. After an UnknownOutcomeError, the tier that it names may have been reset;
// resetting it again also discards what was used since.
func (s *Reader) ResetKey(ctx context.Context, k quota.Key) error {
	_, err := s.counters(ctx, k, true)
	return err
}

func (s *Reader) counters(ctx context.Context, k quota.Key, reset bool) ([]*quoratev1.KeyRate, error) {
	limits := s.node.Committed()
	l, at := limits.Resolve(k.LimitName, k.Key)
	if l == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, LeaderWait)
	defer cancel()
	var out []*quoratev1.KeyRate
	for _, c := range limits.Charges(l.LimitName) {
		if reset && c.Up > 0 {
			continue
		}
		rate, err := s.awaitCounter(ctx, quota.Key{LimitName: c.Limit.LimitName, Key: quota.ParentKey(at, c.Up)}, reset)
		if err != nil {
			return nil, err
		}
		out = append(out, rate)
	}
	return out, nil
}

// awaitCounter retries while the range has no leader, until ctx ends. It repeats a reset whose answer
// was lost under the same id.
func (s *Reader) awaitCounter(ctx context.Context, k quota.Key, reset bool) (*quoratev1.KeyRate, error) {
	var id replica.ResetID
	if reset {
		_, _ = rand.Read(id[:]) // never fails
	}
	lost := false
	for {
		rate, err := s.counter(ctx, k, &peerv1.CallKeys{
			Reset_: reset, RequestId: id[:], Repeated: lost,
			Keys: []*peerv1.CounterKey{{Namespace: k.Namespace, Limit: k.LimitName.Limit, Key: k.Key}},
		})
		if none := (*quota.NoLeaderError)(nil); !errors.As(err, &none) {
			return rate, err
		}
		lost = lost || reset && errors.Is(err, errMaybeReset)
		if backoff.Sleep(ctx, retryPause) != nil {
			if lost {
				err = resetUnknown(k)
			}
			return nil, err
		}
	}
}

func resetUnknown(k quota.Key) error {
	return &quota.UnknownOutcomeError{Reason: fmt.Sprintf("%v may have been reset; look at it before you reset it again", k)}
}

// errMaybeReset means that a leader may have reset a counter.
var errMaybeReset = errors.New("the outcome is not known")

// counter asks the leader of one counter's range. A NoLeaderError that wraps errMaybeReset means that
// the leader may have carried out the request.
func (s *Reader) counter(ctx context.Context, k quota.Key, ask *peerv1.CallKeys) (*quoratev1.KeyRate, error) {
	res := s.cfg.Replicas.Counters(ask)
	if len(res.Keys[0]) == 0 && !res.Unknown {
		r := shard.Of(k, s.cfg.Ranges)
		to := s.node.Leader(r)
		if to == "" || to == s.cfg.Self {
			return nil, &quota.NoLeaderError{Reason: fmt.Sprintf("range %d, which counts %v, has none now", r, k)}
		}
		c, err := s.node.Call(ctx, to, &peerv1.Call{Body: &peerv1.Call_Keys{Keys: ask}})
		if err != nil {
			silent := &quota.NoLeaderError{Reason: fmt.Sprintf("%s, which leads range %d, does not answer: %v", to, r, err)}
			if transport.Unsent(err) {
				return nil, silent
			}
			return nil, fmt.Errorf("%w: %w", silent, errMaybeReset)
		}
		res = c.GetKeysResult()
	}
	if res.GetUnknown() {
		return nil, resetUnknown(k)
	}
	if len(res.GetKeys()) != 1 || len(res.Keys[0]) == 0 {
		return nil, &quota.NoLeaderError{Reason: fmt.Sprintf("the range of %v is changing its leader", k)}
	}
	out := &quoratev1.KeyRate{}
	return out, proto.Unmarshal(res.Keys[0], out)
}
