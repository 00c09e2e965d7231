package accounts

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/client"
)

// fakeNode gives the answers that the test sets, and records the requests.
type fakeNode struct {
	quoratev1.UnimplementedAccountServiceServer
	mu     sync.Mutex
	asked  []proto.Message
	answer func(ctx context.Context, call int) error // nil: success
	res    *quoratev1.ApplyOpsResponse
}

func (n *fakeNode) take(ctx context.Context, req proto.Message) error {
	n.mu.Lock()
	n.asked = append(n.asked, req)
	call := len(n.asked)
	n.mu.Unlock()
	if n.answer == nil {
		return nil
	}
	return n.answer(ctx, call)
}

func (n *fakeNode) calls() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.asked)
}

func (n *fakeNode) ApplyOps(ctx context.Context, req *quoratev1.ApplyOpsRequest) (*quoratev1.ApplyOpsResponse, error) {
	if err := n.take(ctx, req); err != nil {
		return nil, err
	}
	if n.res != nil {
		return n.res, nil
	}
	return &quoratev1.ApplyOpsResponse{Applied: true, Results: []*quoratev1.OpResult{{NewBalance: 9, PreviousBalance: 10}}}, nil
}

func (n *fakeNode) GetAccounts(ctx context.Context, req *quoratev1.GetAccountsRequest) (*quoratev1.GetAccountsResponse, error) {
	if err := n.take(ctx, req); err != nil {
		return nil, err
	}
	return &quoratev1.GetAccountsResponse{Accounts: []*quoratev1.AccountState{{ProjectedBalance: 7}}}, nil
}

func (n *fakeNode) LoadPolicies(ctx context.Context, req *quoratev1.LoadPoliciesRequest) (*quoratev1.LoadPoliciesResponse, error) {
	if err := n.take(ctx, req); err != nil {
		return nil, err
	}
	version := "$hash"
	if req.Version != "" {
		version = "#" + req.Version
	}
	return &quoratev1.LoadPoliciesResponse{Id: &quoratev1.PolicyConfigID{AppId: req.AppId, Realm: req.Realm, Version: version}, Created: true}, nil
}

// refuse answers every call with a code.
func refuse(c codes.Code) func(context.Context, int) error {
	return func(context.Context, int) error { return status.Error(c, "because") }
}

func hang(ctx context.Context, _ int) error {
	<-ctx.Done()
	return ctx.Err()
}

// serve starts a node for each fake, and leaves the address of a nil one dead. It returns an
// application that knows the nodes in this order and does not pause between attempts.
func serve(t *testing.T, nodes ...*fakeNode) (*Application, *client.Client) {
	t.Helper()
	var addrs []string
	for _, n := range nodes {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addrs = append(addrs, l.Addr().String())
		if n == nil {
			_ = l.Close() // nothing listens there
			continue
		}
		srv := grpc.NewServer()
		quoratev1.RegisterAccountServiceServer(srv, n)
		go srv.Serve(l) // returns after Stop
		t.Cleanup(srv.Stop)
	}
	c, err := client.New(t.Context(), addrs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	a := Register(c, "builds", Options{ResourceTypes: []string{"builds", "disk"}})
	a.pause = func(ctx context.Context, _ int) error { return ctx.Err() }
	return a, c
}

func (a *Application) someOps() []*quoratev1.Op {
	config := &quoratev1.PolicyConfigID{AppId: "builds", Realm: "project:infra", Version: "$hash"}
	return []*quoratev1.Op{{
		AccountId: a.AccountID("project:infra", "ci", "alice", "builds"),
		PolicyId:  a.PolicyID(config, "ci", "per_user", "builds"), Delta: -1,
	}}
}

// same compares a node's request with the expected one.
func same(t *testing.T, got, want proto.Message) {
	t.Helper()
	if !proto.Equal(got, want) {
		t.Errorf("the node was asked\n%v\nwant\n%v", got, want)
	}
}

// TestCalls checks the request that each method sends.
func TestCalls(t *testing.T) {
	n := &fakeNode{}
	a, _ := serve(t, n)
	ops := a.someOps()
	ops[0].AccountId.Identity = "user:alice"
	res, err := a.ApplyOps(t.Context(), "request 1", time.Hour, ops)
	if err != nil || !res.Applied || res.Results[0].NewBalance != 9 {
		t.Errorf("apply: %v, %v", res, err)
	}
	if _, err := a.ApplyOps(t.Context(), "", 0, ops); err != nil {
		t.Errorf("apply without an id: %v", err)
	}
	ids := []*quoratev1.AccountID{ops[0].AccountId}
	for _, get := range []func(context.Context, []*quoratev1.AccountID) (*quoratev1.GetAccountsResponse, error){a.GetAccounts, a.GetAccountsStale} {
		if got, err := get(t.Context(), ids); err != nil || got.Accounts[0].ProjectedBalance != 7 {
			t.Errorf("get: %v, %v", got, err)
		}
	}
	cfg := &quoratev1.PolicyConfig{Policies: []*quoratev1.PolicyEntry{{
		Key: &quoratev1.PolicyKey{Name: "per_user", ResourceType: "builds"}, Policy: &quoratev1.Policy{Default: 10, Limit: 10},
	}}}
	if id, err := a.LoadPoliciesAuto(t.Context(), "project:infra", cfg); err != nil || id.Version != "$hash" {
		t.Errorf("load: %v, %v", id, err)
	}
	if id, err := a.LoadPoliciesManual(t.Context(), "project:infra", "git-1", cfg); err != nil || id.Version != "#git-1" {
		t.Errorf("load: %v, %v", id, err)
	}
	for i, want := range []proto.Message{
		&quoratev1.ApplyOpsRequest{RequestId: "request 1", RequestIdTtl: durationpb.New(time.Hour), Ops: ops},
		&quoratev1.ApplyOpsRequest{Ops: ops},
		&quoratev1.GetAccountsRequest{Accounts: ids},
		&quoratev1.GetAccountsRequest{Accounts: ids, Stale: true},
		&quoratev1.LoadPoliciesRequest{AppId: "builds", Realm: "project:infra", Config: cfg},
		&quoratev1.LoadPoliciesRequest{AppId: "builds", Realm: "project:infra", Version: "git-1", Config: cfg},
	} {
		same(t, n.asked[i], want)
	}
	same(t, a.AccountID("r", "s", "n", "disk"), &quoratev1.AccountID{AppId: "builds", Realm: "r", Namespace: "s", Name: "n", ResourceType: "disk"})
}

// TestTTLOutlastsTheCall checks that request IDs are remembered while a call may be repeated.
func TestTTLOutlastsTheCall(t *testing.T) {
	n := &fakeNode{}
	a, _ := serve(t, n)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	never, cancel := context.WithTimeout(t.Context(), 1000*time.Hour)
	defer cancel()
	for _, c := range []struct {
		ctx      context.Context
		id       string
		ttl      time.Duration
		from, to time.Duration
	}{
		{t.Context(), "r1", time.Second, a.timeout, a.timeout + time.Minute},
		{ctx, "r2", time.Second, 5 * time.Minute, 6 * time.Minute},
		{ctx, "r3", time.Hour, time.Hour, time.Hour},
		{never, "r4", time.Second, 31 * 24 * time.Hour, 31 * 24 * time.Hour},
		{ctx, "", time.Second, time.Second, time.Second}, // never repeated
		{ctx, "r5", -1, -1, -1},                          // the node refuses it
	} {
		if _, err := a.ApplyOps(c.ctx, c.id, c.ttl, a.someOps()); err != nil {
			t.Fatal(err)
		}
		req, _ := n.asked[len(n.asked)-1].(*quoratev1.ApplyOpsRequest)
		if got := req.GetRequestIdTtl().AsDuration(); got < c.from || got > c.to {
			t.Errorf("%s, %v: remembered for %v; want %v to %v", c.id, c.ttl, got, c.from, c.to)
		}
	}
}

// TestUnregistered checks that types that the program has not registered do not reach the cluster.
func TestUnregistered(t *testing.T) {
	n := &fakeNode{}
	a, _ := serve(t, n)
	for name, f := range map[string]func(){
		"account": func() { a.AccountID("r", "", "n", "cpu") },
		"policy":  func() { a.PolicyID(nil, "", "n", "cpu") },
	} {
		func() {
			defer func() {
				if s, ok := recover().(string); !ok || !strings.Contains(s, `"cpu"`) || !strings.Contains(s, `"builds"`) {
					t.Errorf("%s of a type that is not registered: %q", name, s)
				}
			}()
			f()
		}()
	}
	cfg := &quoratev1.PolicyConfig{Policies: []*quoratev1.PolicyEntry{
		{Key: &quoratev1.PolicyKey{Name: "a", ResourceType: "disk"}}, {Key: &quoratev1.PolicyKey{Name: "b", ResourceType: "cpu"}},
	}}
	_, err := a.LoadPoliciesAuto(t.Context(), "r", cfg)
	var e *Error
	if !errors.As(err, &e) || !errors.Is(err, client.ErrInvalid) || e.Field != "config.policies[1].key.resource_type" {
		t.Errorf("a policy of a type that is not registered: %v", err)
	}
	for _, version := range []string{"", "$1", "a~b"} {
		if _, err := a.LoadPoliciesManual(t.Context(), "r", version, &quoratev1.PolicyConfig{}); !errors.Is(err, client.ErrInvalid) {
			t.Errorf("version %q: %v", version, err)
		}
	}
	if n.calls() != 0 {
		t.Errorf("the node was asked %d times", n.calls())
	}
}

// TestApplyError checks that the error of a refused call lists the failed operations, and at most
// three of them in its text.
func TestApplyError(t *testing.T) {
	n := &fakeNode{res: &quoratev1.ApplyOpsResponse{Results: []*quoratev1.OpResult{
		{Status: quoratev1.OpStatus_OP_STATUS_ERR_UNDERFLOW, StatusMsg: "10 left"},
		{},
		{Status: quoratev1.OpStatus_OP_STATUS_ERR_MISSING_ACCOUNT},
		{Status: 3},
		{Status: 3},
		{Status: 3},
	}}}
	a, _ := serve(t, n)
	res, err := a.ApplyOps(t.Context(), "x", 0, a.someOps())
	var failed *ApplyError
	if !errors.As(err, &failed) || len(failed.Results) != 6 || len(res.GetResults()) != 6 {
		t.Fatalf("%v, %v", res, err)
	}
	if !failed.Failed(quoratev1.OpStatus_OP_STATUS_ERR_UNDERFLOW) || failed.Failed(quoratev1.OpStatus_OP_STATUS_ERR_OVERFLOW) {
		t.Error("it does not know how they failed")
	}
	const want = `quorate: nothing was applied: 5 of 6 operations failed: ` +
		`ops[0] (account "alice" of "builds" in project:infra): UNDERFLOW: 10 left; ops[2]: MISSING_ACCOUNT; ops[3]: UNDERFLOW; and 2 more`
	if err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
}

// TestRepeats checks which calls are repeated after which code, and where. The first node answers
// with the code, the second with success.
func TestRepeats(t *testing.T) {
	read := func(ctx context.Context, a *Application) error {
		_, err := a.GetAccounts(ctx, nil)
		return err
	}
	load := func(ctx context.Context, a *Application) error {
		_, err := a.LoadPoliciesAuto(ctx, "r", nil)
		return err
	}
	apply := func(id string) func(context.Context, *Application) error {
		return func(ctx context.Context, a *Application) error {
			_, err := a.ApplyOps(ctx, id, 0, a.someOps())
			return err
		}
	}
	for _, c := range []struct {
		name  string
		code  codes.Code
		call  func(context.Context, *Application) error
		again bool
		kind  error
	}{
		{"read", codes.Unavailable, read, true, nil},
		{"load", codes.Unavailable, load, true, nil},
		{"apply with an id", codes.Unavailable, apply("x"), true, nil},
		{"apply with an id, late", codes.DeadlineExceeded, apply("x"), true, nil},
		{"apply without", codes.Unavailable, apply(""), false, client.ErrUnavailable},
		{"apply without, late", codes.DeadlineExceeded, apply(""), false, client.ErrUnavailable},
		{"apply without, held", codes.Aborted, apply(""), true, nil},
		{"apply with an id, held", codes.Aborted, apply("x"), true, nil},
		{"wrong", codes.InvalidArgument, apply("x"), false, client.ErrInvalid},
		{"mismatch", codes.AlreadyExists, apply("x"), false, ErrMismatch},
		{"full", codes.ResourceExhausted, apply("x"), false, ErrFull},
		{"no such service", codes.Unimplemented, read, false, client.ErrInvalid},
		{"broken", codes.Internal, apply("x"), false, client.ErrUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			first, second := &fakeNode{answer: refuse(c.code)}, &fakeNode{}
			a, _ := serve(t, first, second)
			err := c.call(t.Context(), a)
			if !errors.Is(err, c.kind) || (err == nil) != c.again {
				t.Errorf("%v; want %v", err, c.kind)
			}
			if second.calls() > 0 != c.again || first.calls() != 1 {
				t.Errorf("the nodes were asked %d and %d times", first.calls(), second.calls())
			}
			if c.again { // the client stays with the node that answered
				if err := c.call(t.Context(), a); err != nil || first.calls() != 1 {
					t.Errorf("then: %v, the first node was asked %d times", err, first.calls())
				}
			}
			var e *Error
			if err != nil && (!errors.As(err, &e) || e.Node == "" || status.Code(err) != c.code) {
				t.Errorf("%#v, code %v", err, status.Code(err))
			}
		})
	}
}

// TestUnsafeGoesWhereItArrives checks that a call that must not be repeated is not lost because the
// first node is down.
func TestUnsafeGoesWhereItArrives(t *testing.T) {
	up := &fakeNode{}
	a, _ := serve(t, nil, up)
	if _, err := a.ApplyOps(t.Context(), "", 0, a.someOps()); err != nil || up.calls() != 1 {
		t.Errorf("%v, the node was asked %d times", err, up.calls())
	}
	down, _ := serve(t, nil, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	down.pause = pause
	_, err := down.ApplyOps(ctx, "", 0, down.someOps())
	if !errors.Is(err, client.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("all nodes are down: %v", err)
	}
}

// joinedNode tells the clients that attach to it of another node.
type joinedNode struct {
	quoratev1.UnimplementedMemberServiceServer
	other string
}

func (n *joinedNode) Attach(s quoratev1.MemberService_AttachServer) error {
	_, err := s.Recv()
	if err == nil {
		err = s.Send(&quoratev1.AttachResponse{Body: &quoratev1.AttachResponse_Hello{Hello: &quoratev1.NodeHello{Node: "n1", Others: []string{n.other}}}})
	}
	if err == nil {
		<-s.Context().Done()
	}
	return err
}

// TestNodesChange checks that an application uses the nodes that its client knows at the time: one that the client has
// learned of, and none whose connection the client has closed because it left the cluster.
func TestNodesChange(t *testing.T) {
	member, later := &joinedNode{}, &fakeNode{}
	listen := func(register func(*grpc.Server)) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		srv := grpc.NewServer()
		register(srv)
		go srv.Serve(l) // returns after Stop
		t.Cleanup(srv.Stop)
		return l.Addr().String()
	}
	member.other = listen(func(s *grpc.Server) { quoratev1.RegisterAccountServiceServer(s, later) })
	given := listen(func(s *grpc.Server) {
		quoratev1.RegisterMemberServiceServer(s, member)
		quoratev1.RegisterAccountServiceServer(s, &fakeNode{answer: refuse(codes.Unavailable)})
	})
	c, err := client.New(t.Context(), []string{given})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	a := Register(c, "builds", Options{})
	if _, err := a.GetAccounts(t.Context(), nil); err != nil {
		t.Errorf("a node that the client has learned of: %v", err)
	}

	first, second := &fakeNode{}, &fakeNode{}
	a, c = serve(t, first, second)
	_ = c.Conns()[0].Close() // as the client does for a node that has left
	for _, id := range []string{"", "x"} {
		a.current.Store(0)
		if _, err := a.ApplyOps(t.Context(), id, 0, a.someOps()); err != nil {
			t.Errorf("id %q, after a node has left: %v", id, err)
		}
	}
	if first.calls() != 0 || second.calls() != 2 {
		t.Errorf("the nodes were asked %d and %d times", first.calls(), second.calls())
	}
}

// TestRounds simulates an election, in which every node reports that there is no leader.
func TestRounds(t *testing.T) {
	const election = 4
	answer := func(_ context.Context, call int) error {
		if call <= election {
			return status.Error(codes.Unavailable, "no leader")
		}
		return nil
	}
	nodes := []*fakeNode{{answer: answer}, {answer: answer}, {answer: answer}}
	a, _ := serve(t, nodes...)
	var rounds []int
	a.pause = func(_ context.Context, round int) error {
		rounds = append(rounds, round)
		return nil
	}
	if _, err := a.ApplyOps(t.Context(), "x", 0, a.someOps()); err != nil {
		t.Fatal(err)
	}
	if len(rounds) != election || rounds[election-1] != election-1 {
		t.Errorf("pauses after rounds %v", rounds)
	}
	if nodes[0].calls() != election+1 || nodes[1].calls() != election || nodes[2].calls() != election {
		t.Errorf("asked %d, %d, %d times", nodes[0].calls(), nodes[1].calls(), nodes[2].calls())
	}
}

// TestHang checks that a read goes to the next node when one hangs, that a call that must not be
// repeated does not, and that the next call avoids the node that hung.
func TestHang(t *testing.T) {
	stuck, good := &fakeNode{answer: hang}, &fakeNode{}
	a, _ := serve(t, stuck, good)
	for a.timeout = 600 * time.Millisecond; ; a.timeout *= 2 { // the good node's remaining time must suit the machine
		before := good.calls()
		_, err := a.GetAccounts(t.Context(), nil)
		if err == nil && good.calls() == before+1 {
			break
		}
		if a.timeout > time.Minute {
			t.Fatalf("a read: %v, the good node was asked %d times", err, good.calls()-before)
		}
		a.current.Store(0)
	}
	a.current.Store(0)
	before := good.calls()
	_, err := a.ApplyOps(t.Context(), "", 0, a.someOps())
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, client.ErrUnavailable) || good.calls() != before {
		t.Errorf("not to be repeated: %v, the good node was asked %d times", err, good.calls()-before)
	}
	if _, err := a.ApplyOps(t.Context(), "", 0, a.someOps()); err != nil || good.calls() != before+1 {
		t.Errorf("the next call does not go elsewhere: %v", err)
	}
}

// TestInTime checks that an error of the node at the deadline is reported as the deadline,
// whichever side's timer fired first, and that an earlier error is reported as the node's own.
func TestInTime(t *testing.T) {
	for _, code := range []codes.Code{codes.Canceled, codes.DeadlineExceeded} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			said := status.Error(code, "said by the node")
			if err := inTime(ctx, said); !errors.Is(err, said) || ctx.Err() != nil {
				t.Errorf("%v a second before: %v", code, err)
			}
			time.Sleep(time.Second - deadlineSlack/2)
			if err := inTime(ctx, said); status.Code(err) != codes.DeadlineExceeded || errors.Is(err, said) || ctx.Err() == nil {
				t.Errorf("%v at the deadline: %v, the context %v", code, err, ctx.Err())
			}
		})
	}
}

// TestErrorDetails checks that errors name the field and the node, and distinguish a canceled
// context and a closed client.
func TestErrorDetails(t *testing.T) {
	st, err := status.New(codes.InvalidArgument, "ops[0].delta: 0; must be more").WithDetails(&errdetails.BadRequest{
		FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "ops[0].delta"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	a, c := serve(t, &fakeNode{answer: func(context.Context, int) error { return st.Err() }})
	_, err = a.ApplyOps(t.Context(), "x", 0, a.someOps())
	var e *Error
	if !errors.As(err, &e) || e.Field != "ops[0].delta" || !strings.Contains(err.Error(), "must be more") || !strings.Contains(err.Error(), e.Node) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.GetAccounts(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"", "x"} {
		if _, err := a.ApplyOps(t.Context(), id, 0, a.someOps()); !errors.Is(err, client.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	}
}

// TestPause checks the jitter and the growth of pauses up to a second, and that an ended context
// ends a pause.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for round, most := range map[int]time.Duration{0: 50, 1: 100, 2: 200, 3: 400, 4: 800, 5: 1000, 70: 1000} {
			most *= time.Millisecond
			shortest, longest := time.Hour, time.Duration(0)
			for range 200 {
				start := time.Now()
				if err := pause(t.Context(), round); err != nil {
					t.Fatal(err)
				}
				took := time.Since(start)
				shortest, longest = min(shortest, took), max(longest, took)
			}
			if shortest < most/2 || longest >= most || longest-shortest < most/4 {
				t.Errorf("after round %d from %v to %v; want %v to %v", round, shortest, longest, most/2, most)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := pause(ctx, 9); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("an ended context: %v", err)
		}
	})
}
