package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/internal/pki"
	"github.com/quorate/quorate/internal/quota"
)

// loseAnswer makes a call at one node that another carries out, and loses the answer: once carriedOut
// returns nil it runs meanwhile, then cuts the connection. The answer that it loses may be a refusal, if
// the membership changes in the same moment; then nothing is carried out, and it makes the call anew.
func (c *threeNodes) loseAnswer(from, to *Node, call func(context.Context) error, carriedOut func() error, meanwhile func()) error {
	c.t.Helper()
	const carryOut = 10 * time.Second // ample for what takes milliseconds
	for began := time.Now(); ; {
		to.net.SetFault(func(peer quota.NodeID, lane peerv1.Lane) transport.Fault {
			return transport.Fault{Drop: peer == from.cfg.Self && lane == peerv1.Lane_LANE_DATA}
		})
		ctx, cancel := context.WithCancel(c.t.Context())
		out, late := make(chan error, 1), time.Now().Add(carryOut)
		go func() { out <- call(ctx) }()
		for carriedOut() != nil && time.Now().Before(late) {
			time.Sleep(time.Millisecond)
		}
		done := carriedOut()
		if done == nil {
			meanwhile()
		} else {
			cancel()
		}
		from.net.SetFault(func(peer quota.NodeID, _ peerv1.Lane) transport.Fault {
			return transport.Fault{Cut: peer == to.cfg.Self}
		})
		to.net.SetFault(nil)
		from.net.SetFault(nil)
		err := <-out
		cancel()
		if done == nil {
			return err
		}
		if time.Since(began) > patience {
			c.t.Fatalf("the call is not carried out: %v; it returned %v", done, err)
		}
		c.eventually(patience, "both know the membership", func() error { return sameMembership(from, to) }) // the fault drops it too
	}
}

// metaCallers returns a node that does not lead the meta group and the node that does, once both know the same membership:
// a change of another revision is refused, and made again only if that answer is not lost.
func (c *threeNodes) metaCallers() (other, lead *Node) {
	c.t.Helper()
	c.eventually(patience, "the cluster has a membership", func() error {
		other = c.others()[0]
		lead = c.nodes[other.routes.metaLeader()]
		if lead == nil || !lead.meta.Members.Load().Seeded() {
			return errors.New("none yet")
		}
		if err := other.members.Await(c.t.Context(), "the test"); err != nil {
			return err
		}
		if b := lead.meta.Members.Load(); len(b.Nodes()) < len(c.nodes) {
			return fmt.Errorf("%d members", len(b.Nodes()))
		}
		return sameMembership(other, lead)
	})
	return other, lead
}

func sameMembership(a, b *Node) error {
	if a, b := a.meta.Members.Load().Revision(), b.meta.Members.Load().Revision(); a != b {
		return fmt.Errorf("revisions %d and %d", a, b)
	}
	return nil
}

// TestResetIsMadeOnce checks that a reset whose answer was lost is repeated, and that what was used
// since the first try stays used. A leader that does not know the first try leaves the key alone.
func TestResetIsMadeOnce(t *testing.T) {
	c := newThreeNodes(t, 2)
	l := limit("l", 20, quota.Soft)
	c.apply(l)
	n1, n2 := c.nodes["n1"], c.nodes["n2"]
	k := c.keyLedBy(l.LimitName, "n1", "k")
	use(t, n1, k, 15)
	c.awaitRemaining(k, 5)
	full := func() error {
		lines, err := n1.Key(t.Context(), k)
		if err == nil && lines[0].Remaining != 20 {
			err = errors.New("not reset")
		}
		return err
	}
	err := c.loseAnswer(n2, n1, func(ctx context.Context) error { return n2.ResetKey(ctx, k) }, full, func() {
		use(t, c.nodes["n3"], k, 12)
		c.awaitRemaining(k, 8)
	})
	if unknown := (*quota.UnknownOutcomeError)(nil); err != nil && !errors.As(err, &unknown) {
		t.Errorf("the reset: %v", err)
	}
	for range 2 { // twice: a value that is right too early may still change
		c.awaitRemaining(k, 8)
		time.Sleep(3 * n2.cfg.Sync) // there is no condition to wait for: the value must not get worse
	}
	res := n1.ranges.Counters(&peerv1.CallKeys{
		Reset_: true, RequestId: make([]byte, len(replica.ResetID{})), Repeated: true,
		Keys: []*peerv1.CounterKey{{Namespace: k.Namespace, Limit: k.Limit, Key: k.Key}},
	})
	if !res.Unknown || len(res.Keys[0]) != 0 {
		t.Errorf("a repetition of a reset that this leader has not made: %v", res)
	}
	c.awaitRemaining(k, 8)
}

// TestJoinTokenIsMadeOnce checks that a call for a join token whose answer was lost is repeated, and
// creates no second token. It returns the token that exists.
func TestJoinTokenIsMadeOnce(t *testing.T) {
	c := newThreeNodes(t, 2)
	other, lead := c.metaCallers()
	tokens := func() []*quoratev1.JoinToken {
		res, err := lead.ChangeCluster(t.Context(), "me", &quoratev1.ListJoinTokensRequest{})
		if err != nil {
			t.Error(err)
			return nil
		}
		return res.(*quoratev1.ListJoinTokensResponse).Tokens
	}
	var res proto.Message
	call := func(ctx context.Context) (err error) {
		res, err = other.ChangeCluster(ctx, "me", &quoratev1.CreateJoinTokenRequest{})
		return err
	}
	made := func() error {
		if len(tokens()) == 0 {
			return errors.New("no token yet")
		}
		return nil
	}
	if err := c.loseAnswer(other, lead, call, made, func() {}); err != nil {
		t.Fatal(err)
	}
	if list := tokens(); len(list) != 1 || list[0].Id != res.(*quoratev1.CreateJoinTokenResponse).Info.Id {
		t.Errorf("there are %d tokens: %v; the answer is of %v", len(list), list, res)
	}
	id := tokens()[0].Id
	revoke := func(ctx context.Context) error {
		_, err := other.ChangeCluster(ctx, "me", &quoratev1.RevokeJoinTokenRequest{Id: id})
		return err
	}
	gone := func() error {
		if len(tokens()) > 0 {
			return errors.New("it is there")
		}
		return nil
	}
	if err := c.loseAnswer(other, lead, revoke, gone, func() {}); err != nil {
		t.Errorf("revoked: %v", err)
	}
	if err := revoke(t.Context()); err == nil {
		t.Error("revoked again by another call: no error")
	}
}

// TestRotationIsNotRepeated checks that a step of a rotation whose answer was lost is not repeated. A
// repetition could take the next step, and lock out clients that do not trust the next authority yet.
func TestRotationIsNotRepeated(t *testing.T) {
	ca, err := pki.NewCA("test", time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Pair()
	if err != nil {
		t.Fatal(err)
	}
	c := newThreeNodes(t, 2, func(cfg *Config) { cfg.Authority = &pair })
	other, lead := c.metaCallers()
	rotate := func(ctx context.Context) error {
		_, err := other.ChangeCluster(ctx, "me", &quoratev1.RotateAuthorityRequest{})
		return err
	}
	begun := func() error {
		if len(lead.meta.Members.Load().Authority().GetNextCertificate()) == 0 {
			return errors.New("it is not")
		}
		return nil
	}
	err = c.loseAnswer(other, lead, rotate, begun, func() {})
	if unknown := (*quota.UnknownOutcomeError)(nil); !errors.As(err, &unknown) {
		t.Errorf("the rotation: %v; want an UnknownError", err)
	}
}
