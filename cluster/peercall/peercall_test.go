package peercall

import (
	"context"
	"errors"
	"testing"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/quota"
)

// TestAnswer finds the handler of a call, returns its error, and rejects calls without a handler.
func TestAnswer(t *testing.T) {
	failure := errors.New("failed")
	table := Table{}
	Handle(table, time.Minute, func(ctx context.Context, from quota.NodeID, c *peerv1.CallReplica) (*peerv1.CallReplicaResult, error) {
		if end, ok := ctx.Deadline(); !ok || time.Until(end) > time.Minute {
			t.Errorf("the context ends at %v", end)
		}
		if c.GetGroup() == 0 {
			return nil, failure
		}
		return &peerv1.CallReplicaResult{LastIndex: uint64(c.GetGroup()), Leader: string(from)}, nil
	})
	ask := func(group uint32) *peerv1.Call {
		return &peerv1.Call{Body: &peerv1.Call_Replica{Replica: &peerv1.CallReplica{Group: group}}}
	}
	out, err := table.Answer(t.Context(), "n2", ask(7))
	if r := out.GetReplicaResult(); err != nil || r.GetLastIndex() != 7 || r.GetLeader() != "n2" {
		t.Errorf("%v, %v", out, err)
	}
	if out, err := table.Answer(t.Context(), "n2", ask(0)); out != nil || !errors.Is(err, failure) {
		t.Errorf("%v, %v; want the handler's error", out, err)
	}
	for _, c := range []*peerv1.Call{{}, {Body: &peerv1.Call_Gone{Gone: &peerv1.CallGone{}}}} {
		if out, err := table.Answer(t.Context(), "n2", c); out != nil || !errors.Is(err, ErrUnknown) {
			t.Errorf("%v: %v, %v; want ErrUnknown", c, out, err)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a second handler for the same call was taken")
		}
	}()
	Handle(table, time.Minute, func(context.Context, quota.NodeID, *peerv1.CallReplica) (*peerv1.CallReplicaResult, error) {
		return nil, nil
	})
}

func BenchmarkAnswer(b *testing.B) {
	table := Table{}
	res := &peerv1.CallReplicaResult{}
	Handle(table, Limit, func(context.Context, quota.NodeID, *peerv1.CallReplica) (*peerv1.CallReplicaResult, error) {
		return res, nil
	})
	c := &peerv1.Call{Body: &peerv1.Call_Replica{Replica: &peerv1.CallReplica{}}}
	for b.Loop() {
		if _, err := table.Answer(b.Context(), "n2", c); err != nil {
			b.Fatal(err)
		}
	}
}
