package accounts

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/peercall"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// follower is a node without replicas: it forwards everything to n1, the node of another world.
type follower struct {
	world
	call func(c *peerv1.Call) (*peerv1.Call, error)
}

func (f *follower) Group(quota.RangeID) Group         { return nil }
func (f *follower) Leader(quota.RangeID) quota.NodeID { return "n1" }
func (f *follower) Call(_ context.Context, _ quota.NodeID, c *peerv1.Call) (*peerv1.Call, error) {
	return f.call(c)
}

// handled runs the handler of a world's service for a call of another node.
func handled(w *world, c *peerv1.Call) (*peerv1.Call, error) {
	t := peercall.Table{}
	w.AddCalls(t)
	return t.Answer(context.Background(), "n2", c)
}

// TestAnswerLost has a leader apply a forwarded command and then loses its answer: no caller gets
// the answer that nothing was done, and nothing is done twice.
func TestAnswerLost(t *testing.T) {
	for name, fault := range map[string]error{
		"answer cannot be sent": &transport.RemoteError{Peer: "n1", Text: "frame too large: 17000000 bytes"},
		"connection lost":       transport.ErrLost,
		"too late":              context.DeadlineExceeded,
	} {
		for _, id := range []string{"", "r1"} {
			t.Run(fmt.Sprintf("%s, id %q", name, id), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					calls := 0
					f := &follower{call: func(c *peerv1.Call) (*peerv1.Call, error) {
						calls++
						if out, err := handled(w, c); calls > 2 {
							return out, err
						}
						return nil, fault
					}}
					f.Service = New(Config{Self: "n2", Ranges: 1, Node: f})
					t.Cleanup(f.Close)
					ops := add("x")
					if out, err := w.ApplyOps(t.Context(), account.Caller{By: "me"}, "", 0, ops); err != nil || out.Code != account.Done {
						t.Fatalf("%+v, %v", out, err)
					}
					ops[0].RelativeTo = account.Balance
					out, err := f.ApplyOps(t.Context(), account.Caller{By: "me"}, id, 0, ops)
					var u *UnavailableError
					switch {
					case id == "" && (!errors.As(err, &u) || !u.Unknown):
						t.Errorf("without an id: %+v, %v; want that the outcome is not known", out, err)
					case id != "" && (err != nil || out.Code != account.Repeated):
						t.Errorf("with an id: %+v, %v; want the answer to the first try", out, err)
					}
					if got := w.replica.View().Get(w.Now(), ops[0].Account).Balance; got != 2 {
						t.Errorf("the balance is %d, want 2: one call that adds 1 to 1", got)
					}
				})
			})
		}
	}
}

// TestRetryAfterTTL loses the answer to a call, and the range then has no leader for longer than the
// caller wants the request ID to be remembered. The retry is not applied again.
func TestRetryAfterTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		began := time.Now()
		f := &follower{call: func(c *peerv1.Call) (*peerv1.Call, error) {
			switch away := time.Since(began); {
			case away == 0:
				_, _ = handled(w, c)
				return nil, transport.ErrLost
			case away < 8*time.Second:
				return nil, transport.ErrUnreachable
			}
			return handled(w, c)
		}}
		f.Service = New(Config{Self: "n2", Ranges: 1, Node: f})
		t.Cleanup(f.Close)
		out, err := f.ApplyOps(t.Context(), account.Caller{By: "me"}, "r1", time.Second, add("x"))
		if err != nil || out.Code != account.Repeated {
			t.Errorf("%+v, %v; want the answer to the first try", out, err)
		}
	})
}

// stray is a follower that knows no leader and no replica.
type stray struct{ follower }

func (*stray) Current(quota.RangeID) bool           { return false }
func (*stray) Leader(quota.RangeID) quota.NodeID    { return "" }
func (*stray) Holders(quota.RangeID) []quota.NodeID { return nil }

// TestStaleReadOfNobody checks that a stale read fails where no replica is known.
func TestStaleReadOfNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &stray{}
		n.Service = New(Config{Self: "n2", Ranges: 1, Node: n})
		t.Cleanup(n.Close)
		_, _, err := n.GetAccounts(t.Context(), []account.ID{{App: "a", Realm: "r", Name: "n", Resource: "x"}}, true)
		if _, ok := errors.AsType[*UnavailableError](err); !ok {
			t.Errorf("%v; want an UnavailableError", err)
		}
	})
}

// TestLargeAnswers forwards calls whose answers are many times as large as they are, because the
// accounts have policies with long names. Each answer fits into a frame, and all calls are applied.
func TestLargeAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.rule = &account.Policy{Limit: account.Most}
		largest, messages, hold := 0, 0, make(chan struct{})
		f := &follower{}
		f.rule = w.rule
		f.call = func(c *peerv1.Call) (*peerv1.Call, error) {
			<-hold
			out, err := handled(w, c)
			f.mu.Lock()
			defer f.mu.Unlock()
			messages++
			largest = max(largest, proto.Size(out))
			return out, err
		}
		f.Service = New(Config{Self: "n2", Ranges: 1, Node: f})
		t.Cleanup(f.Close)
		long := func(first string) string { return first + strings.Repeat("x", account.MaxAtom-1) }
		one := add("x")
		one[0].Policy = &account.PolicyRef{
			Config: account.ConfigID{App: long("a"), Realm: long("r"), Version: "#" + long("v")[1:]},
			Key:    account.PolicyKey{Namespace: long("n"), Name: long("m"), Resource: "u"},
		}
		one[0].Delta = 0
		if out, err := w.ApplyOps(t.Context(), account.Caller{By: "me"}, "", 0, one); err != nil || out.Code != account.Done {
			t.Fatalf("%+v, %v", out, err)
		}
		ops := make([]account.Op, account.MaxOps)
		for i := range ops {
			ops[i] = account.Op{Account: one[0].Account, RelativeTo: account.Balance, Delta: 1}
		}
		const calls = 30
		done := make(chan error, calls)
		for range calls {
			go func() {
				out, err := f.ApplyOps(t.Context(), account.Caller{By: "me"}, "", 0, ops)
				if err == nil && out.Code != account.Done {
					err = fmt.Errorf("code %v", out.Code)
				}
				done <- err
			}()
		}
		synctest.Wait()
		close(hold)
		for range calls {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if largest > transport.MaxFrame-1024 || messages == calls {
			t.Errorf("%d calls in %d messages; the largest answer has %d bytes, and a frame at most %d", calls, messages, largest, transport.MaxFrame)
		}
		if got := w.replica.View().Get(w.Now(), one[0].Account).Balance; got != calls*account.MaxOps {
			t.Errorf("the balance is %d, want %d", got, calls*account.MaxOps)
		}
	})
}
