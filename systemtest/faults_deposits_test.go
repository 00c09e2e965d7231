package systemtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

const (
	depositAccounts = 16 // over all ranges
	depositEvery    = 150 * time.Millisecond
	depositWait     = time.Second
)

// deposits adds 1 to each account again and again, and repeats each request under one request id
// until it gets an answer. In the end each balance therefore equals the number of answered
// deposits, exactly.
type deposits struct {
	t      *testing.T
	nodes  []quoratev1.AccountServiceClient
	policy *quoratev1.PolicyID
	cancel context.CancelFunc
	wg     sync.WaitGroup
	pause  atomic.Int64 // between two deposits to one account, nanoseconds
	wait   atomic.Int64 // how long a call may take before it is repeated, nanoseconds
	gate   sync.RWMutex // read-locked while a deposit is in flight

	mu    sync.Mutex
	done  []int64             // by account
	last  []error             // by account: error of the last call
	acks  []ack               // answers since the last forget
	calls map[int]*depositing // by node in use
}

// depositing cancels the calls to a node that deposits must no longer use.
type depositing struct {
	ctx    context.Context
	cancel context.CancelFunc
}

// ack is an answer: when its call was sent, and which node answered.
type ack struct {
	account, node int
	sent, at      time.Time
}

func startDeposits(t *testing.T, c *servers) *deposits {
	t.Helper()
	d := newDeposits(t, c.nodes, insecure.NewCredentials())
	for i := range c.nodes {
		d.use(i)
	}
	d.start()
	return d
}

// newDeposits returns deposits that use no node and make no calls yet.
func newDeposits(t *testing.T, nodes []*server, creds credentials.TransportCredentials) *deposits {
	t.Helper()
	d := &deposits{t: t, cancel: func() {}, done: make([]int64, depositAccounts), last: make([]error, depositAccounts), calls: map[int]*depositing{}}
	d.pause.Store(int64(depositEvery))
	d.wait.Store(int64(depositWait))
	soon := grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1, MaxDelay: 50 * time.Millisecond},
		MinConnectTimeout: time.Second,
	}
	for _, s := range nodes {
		conn, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(creds), grpc.WithConnectParams(soon))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		d.nodes = append(d.nodes, quoratev1.NewAccountServiceClient(conn))
	}
	return d
}

// start opens the accounts through the first node and begins to deposit.
func (d *deposits) start() {
	d.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	d.cancel = cancel
	d.open()
	for i := range depositAccounts {
		d.wg.Go(func() { d.keepDepositing(ctx, i) })
	}
	d.t.Cleanup(d.stop)
}

// stop stops depositing and waits for the outstanding answers.
func (d *deposits) stop() {
	d.cancel()
	d.wg.Wait()
}

// use lets deposits go through a node; avoid stops that.
func (d *deposits) use(node int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.calls[node] == nil {
		ctx, cancel := context.WithCancel(context.Background())
		d.calls[node] = &depositing{ctx, cancel}
	}
}

func (d *deposits) avoid(node int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.calls[node]; c != nil {
		c.cancel()
		delete(d.calls, node)
	}
}

func (d *deposits) account(i int) *quoratev1.AccountID {
	return &quoratev1.AccountID{AppId: "bank", Realm: bankRealm, Namespace: fmt.Sprintf("d%d", i), Name: "a", ResourceType: "coins"}
}

// open creates the accounts with a balance of zero.
func (d *deposits) open() {
	d.t.Helper()
	key := &quoratev1.PolicyKey{Namespace: "bank", Name: "deposit", ResourceType: "coins"}
	eventually(d.t, 10*time.Second, "the policy is loaded", func() error {
		res, err := d.nodes[0].LoadPolicies(d.t.Context(), &quoratev1.LoadPoliciesRequest{
			AppId: "bank", Realm: bankRealm,
			Config: &quoratev1.PolicyConfig{Policies: []*quoratev1.PolicyEntry{{Key: key, Policy: &quoratev1.Policy{Limit: 1_000_000_000}}}},
		})
		d.policy = &quoratev1.PolicyID{Config: res.GetId(), Key: key}
		return err
	})
	for i := range depositAccounts {
		eventually(d.t, 10*time.Second, "the accounts are open", func() error {
			_, err := d.nodes[0].ApplyOps(d.t.Context(), &quoratev1.ApplyOpsRequest{
				RequestId: fmt.Sprintf("open-%d", i), Ops: []*quoratev1.Op{{AccountId: d.account(i), PolicyId: d.policy}},
			})
			return err
		})
	}
}

func (d *deposits) keepDepositing(ctx context.Context, account int) {
	for n := 0; ctx.Err() == nil; n++ {
		d.gate.RLock()
		d.deposit(ctx, account, n)
		d.gate.RUnlock()
		sleep(ctx, time.Duration(d.pause.Load()))
	}
}

// deposit tries the nodes in use in turn until one answers. If the test ends first, the outcome
// stays unknown and nobody reads it.
func (d *deposits) deposit(ctx context.Context, account, n int) {
	req := &quoratev1.ApplyOpsRequest{RequestId: fmt.Sprintf("d-%d-%d", account, n), Ops: []*quoratev1.Op{{AccountId: d.account(account), Delta: 1}}}
	for try := account + n; ctx.Err() == nil; try++ {
		node := try % len(d.nodes)
		sent := time.Now()
		res, err := d.ask(node, req)
		d.note(account, node, sent, err)
		switch {
		case err == nil && res.GetApplied():
			d.mu.Lock()
			d.done[account]++
			d.acks = append(d.acks, ack{account, node, sent, time.Now()})
			d.mu.Unlock()
			return
		case err == nil:
			d.t.Errorf("deposit %s: %v", req.GetRequestId(), res)
			return
		case !errors.Is(err, errAvoided) && !mayRepeat(err) && d.inUse(node):
			d.t.Errorf("deposit %s: %v", req.GetRequestId(), err)
			return
		}
		sleep(ctx, 10*time.Millisecond)
	}
}

// note records the error of a call, which servedSince reports.
func (d *deposits) note(account, node int, sent time.Time, err error) {
	if err != nil && !errors.Is(err, errAvoided) {
		err = fmt.Errorf("account %d through node %d, asked for %v: %w", account, node+1, time.Since(sent).Round(time.Millisecond), err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last[account] = err
}

// errAvoided means that the node is not in use.
var errAvoided = errors.New("the node is avoided")

func (d *deposits) inUse(node int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls[node] != nil
}

func (d *deposits) ask(node int, req *quoratev1.ApplyOpsRequest) (*quoratev1.ApplyOpsResponse, error) {
	d.mu.Lock()
	c := d.calls[node]
	d.mu.Unlock()
	if c == nil {
		return nil, errAvoided
	}
	ctx, cancel := context.WithTimeout(c.ctx, time.Duration(d.wait.Load()))
	defer cancel()
	return d.nodes[node].ApplyOps(ctx, req)
}

func (d *deposits) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.acks = nil
}

// servedSince returns nil if every account has taken a deposit that was sent after a moment, and
// every one of the nodes has passed one on. Otherwise the error says what is missing.
func (d *deposits) servedSince(moment time.Time, nodes []int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	accounts, through := map[int]bool{}, map[int]bool{}
	for _, a := range d.acks {
		if a.sent.After(moment) {
			accounts[a.account], through[a.node] = true, true
		}
	}
	for _, n := range nodes {
		if !through[n] {
			return fmt.Errorf("no deposit through node %d", n+1)
		}
	}
	if len(accounts) < depositAccounts {
		return fmt.Errorf("deposits in %d of %d accounts; %w", len(accounts), depositAccounts, errors.Join(d.last...))
	}
	return nil
}

// answered returns how many deposits were answered since the last forget.
func (d *deposits) answered() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.acks)
}

// verify waits for the deposits in flight, and compares every balance, as each of the nodes reads
// it, with the number of answered deposits.
func (d *deposits) verify(nodes []int) (err error) {
	d.gate.Lock()
	defer d.gate.Unlock()
	req := &quoratev1.GetAccountsRequest{}
	for i := range depositAccounts {
		req.Accounts = append(req.Accounts, d.account(i))
	}
	for _, n := range nodes {
		var res *quoratev1.GetAccountsResponse
		eventually(d.t, 10*time.Second, fmt.Sprintf("node %d reads all balances", n+1), func() (err error) {
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
			defer cancel()
			res, err = d.nodes[n].GetAccounts(ctx, req)
			return err
		})
		for i, a := range res.GetAccounts() {
			if got := a.GetAccount().GetBalance(); got != d.done[i] {
				err = fmt.Errorf("account %d has %d at node %d; %d deposits were answered", i, got, n+1, d.done[i])
			}
		}
	}
	return err
}
