package systemtest

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	rpcstatus "google.golang.org/grpc/status"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

const (
	bankGroups = 12 // the accounts of every second group share a range
	cashGroups = 4  // the last groups, whose tellers also deposit and withdraw
	perGroup   = 4  // accounts per group
	tellers    = 2  // tellers per group
	opening    = 100
	bankRealm  = "project:bank"
	cash       = -1 // stands for an account in a move: the money comes from outside or goes there
	mostDoubts = 6  // moves of unknown outcome in a group; each doubles the work of the check
)

// noReturn is the return time of a move of unknown outcome: it may be applied at any later time.
const noReturn = int64(1) << 62

// bank holds accounts in groups. Money moves within a group, and the bank records every answer.
type bank struct {
	t      *testing.T
	seed   uint64
	nodes  []quoratev1.AccountServiceClient
	policy *quoratev1.PolicyID
	began  time.Time

	mu       sync.Mutex
	history  []porcupine.Operation
	wg       sync.WaitGroup
	next     atomic.Int64             // request ids
	resent   atomic.Int64             // calls repeated because their outcome was unknown
	repeated atomic.Int64             // of those, calls that had been applied
	usedUp   atomic.Int64             // of those, calls that were refused and then blocked from applying later
	doubts   [bankGroups]atomic.Int64 // moves of unknown outcome, by group
}

// move is the request of a teller: a transfer or, if to == from, a read of the group. A deposit
// moves from cash, a withdrawal to cash.
type move struct {
	group, from, to int
	amount          int64
}

// told is the answer to a move.
type told struct {
	applied  bool
	unknown  bool // no answer: it may have been applied or not, or may be applied later
	from, to int64
	all      [perGroup]int64 // balances, of a read
}

// openBank loads the policy and opens the accounts.
func openBank(t *testing.T, c *servers, seed uint64) *bank {
	t.Helper()
	b := &bank{t: t, seed: seed, began: time.Now()}
	soon := grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1, MaxDelay: 50 * time.Millisecond},
		MinConnectTimeout: time.Second,
	}
	for _, s := range c.nodes {
		conn, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithConnectParams(soon))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		b.nodes = append(b.nodes, quoratev1.NewAccountServiceClient(conn))
	}
	key := &quoratev1.PolicyKey{Namespace: "bank", Name: "account", ResourceType: "coins"}
	eventually(t, 10*time.Second, "the policy is loaded", func() error {
		res, err := b.nodes[0].LoadPolicies(t.Context(), &quoratev1.LoadPoliciesRequest{
			AppId: "bank", Realm: bankRealm,
			Config: &quoratev1.PolicyConfig{Policies: []*quoratev1.PolicyEntry{{Key: key, Policy: &quoratev1.Policy{Default: opening, Limit: 1_000_000}}}},
		})
		b.policy = &quoratev1.PolicyID{Config: res.GetId(), Key: key}
		return err
	})
	for g := range bankGroups {
		req := &quoratev1.ApplyOpsRequest{RequestId: fmt.Sprintf("open-%d", g)}
		for i := range perGroup {
			req.Ops = append(req.Ops, &quoratev1.Op{AccountId: b.account(g, i), PolicyId: b.policy})
		}
		eventually(t, 10*time.Second, "the accounts are open", func() error {
			res, err := b.nodes[g%len(b.nodes)].ApplyOps(t.Context(), req)
			if err == nil && !res.GetApplied() {
				return fmt.Errorf("%v", res)
			}
			return err
		})
	}
	return b
}

// account returns account i of a group. The accounts of an even group share a range.
func (b *bank) account(group, i int) *quoratev1.AccountID {
	place := fmt.Sprintf("g%d", group)
	if group%2 == 0 {
		place = "@" + place
	}
	return &quoratev1.AccountID{AppId: "bank", Realm: bankRealm, Namespace: place, Name: fmt.Sprintf("a%d", i), ResourceType: "coins"}
}

// open runs the tellers and an auditor until ctx ends.
func (b *bank) open(ctx context.Context) {
	for g := range bankGroups {
		for k := range tellers {
			b.wg.Go(func() { b.teller(ctx, g, g*tellers+k) })
		}
	}
	b.wg.Go(func() { b.auditor(ctx, bankGroups*tellers) })
}

func (b *bank) teller(ctx context.Context, group, id int) {
	rng := rand.New(rand.NewPCG(uint64(id), b.seed))
	for ctx.Err() == nil {
		m := move{group: group, from: rng.IntN(perGroup), to: rng.IntN(perGroup), amount: 1 + rng.Int64N(opening)}
		if group >= bankGroups-cashGroups {
			switch rng.IntN(4) {
			case 0:
				m.from = cash
			case 1:
				m.to = cash
			}
		}
		switch {
		case m.from == m.to:
			_ = b.read(ctx, id, rng.IntN(len(b.nodes)), []int{group})
		case rng.IntN(8) == 0:
			b.once(id, m, rng)
		default:
			b.transfer(id, m, rng)
		}
	}
}

// auditor reads all accounts among which money only moves in one call, again and again; their sum
// must never change.
func (b *bank) auditor(ctx context.Context, id int) {
	all := make([]int, bankGroups-cashGroups)
	for g := range all {
		all[g] = g
	}
	for n := 0; ctx.Err() == nil; n++ {
		_ = b.read(ctx, id, n%len(b.nodes), all)
		time.Sleep(20 * time.Millisecond) // reads continuously, but leaves the machine to the transfers
	}
}

// transfer repeats a transfer under one request id until its outcome is known.
func (b *bank) transfer(id int, m move, rng *rand.Rand) {
	req := &quoratev1.ApplyOpsRequest{RequestId: fmt.Sprintf("t-%d", b.next.Add(1)), Ops: b.ops(m)}
	called := time.Since(b.began)
	doubt := false // an earlier attempt may still be in flight and arrive later
	for patience := time.Now().Add(60 * time.Second); ; {
		res, err := b.ask(rng.IntN(len(b.nodes)), req)
		switch {
		case err == nil && doubt && !res.GetApplied() && !b.useUp(req, rng, patience):
			// The earlier attempt has arrived. The next answer repeats its result.
		case err == nil:
			b.answered(id, m, req, res, called)
			if rng.IntN(20) == 0 {
				b.again(req, res, rng)
			}
			return
		case !mayRepeat(err):
			b.t.Errorf("%v: %v", m, err)
			return
		case time.Now().After(patience):
			b.t.Errorf("%v: nobody knows what became of it for a minute: %v", m, err)
			return
		}
		doubt = true
		b.resent.Add(1)
		time.Sleep(time.Duration(rng.IntN(50)) * time.Millisecond) // backoff before the next attempt
	}
}

// once makes a move without a request id, and once. Without an answer its outcome stays unknown.
func (b *bank) once(id int, m move, rng *rand.Rand) {
	if b.doubts[m.group].Load() >= mostDoubts {
		return
	}
	req := &quoratev1.ApplyOpsRequest{Ops: b.ops(m)}
	called := time.Since(b.began)
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(100+rng.IntN(900))*time.Millisecond)
	defer cancel()
	res, err := b.nodes[rng.IntN(len(b.nodes))].ApplyOps(ctx, req)
	switch {
	case err == nil:
		b.answered(id, m, req, res, called)
	case !mayRepeat(err):
		b.t.Errorf("%v: %v", m, err)
	default:
		b.doubts[m.group].Add(1)
		b.record(porcupine.Operation{ClientId: id, Input: m, Call: int64(called), Output: told{unknown: true}, Return: noReturn})
	}
}

// ops returns the operations of a move.
func (b *bank) ops(m move) (ops []*quoratev1.Op) {
	if m.from != cash {
		ops = append(ops, &quoratev1.Op{AccountId: b.account(m.group, m.from), Delta: -m.amount})
	}
	if m.to != cash {
		ops = append(ops, &quoratev1.Op{AccountId: b.account(m.group, m.to), Delta: m.amount})
	}
	return ops
}

// useUp applies an empty operation under the request id, so that an earlier attempt without an
// answer cannot apply later. docs/explanation/durable-quotas.md gives this advice to callers that are refused
// after such an attempt. useUp returns false if the earlier attempt had already been applied.
func (b *bank) useUp(req *quoratev1.ApplyOpsRequest, rng *rand.Rand, patience time.Time) bool {
	none := &quoratev1.ApplyOpsRequest{RequestId: req.GetRequestId(), Ops: []*quoratev1.Op{{AccountId: req.GetOps()[0].GetAccountId()}}}
	for {
		res, err := b.ask(rng.IntN(len(b.nodes)), none)
		switch {
		case err == nil && res.GetApplied():
			b.usedUp.Add(1)
			return true
		case rpcstatus.Code(err) == codes.AlreadyExists:
			return false
		case err == nil || !mayRepeat(err) || time.Now().After(patience):
			b.t.Errorf("%s, to be used up: %v, %v", req.GetRequestId(), res, err)
			return true
		}
		time.Sleep(time.Duration(rng.IntN(50)) * time.Millisecond) // backoff before the next attempt
	}
}

func (b *bank) ask(node int, req *quoratev1.ApplyOpsRequest) (*quoratev1.ApplyOpsResponse, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	return b.nodes[node].ApplyOps(ctx, req)
}

// mayRepeat reports whether the caller may repeat the call after err.
func mayRepeat(err error) bool {
	switch rpcstatus.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Aborted, codes.ResourceExhausted:
		return true
	}
	return false
}

func (b *bank) answered(id int, m move, req *quoratev1.ApplyOpsRequest, res *quoratev1.ApplyOpsResponse, called time.Duration) {
	if res.GetRepeated() {
		b.repeated.Add(1)
	}
	r := res.GetResults()
	if len(r) != len(req.GetOps()) {
		b.t.Errorf("%v: %d results", m, len(r))
		return
	}
	if !res.GetApplied() && r[0].GetStatus() != quoratev1.OpStatus_OP_STATUS_ERR_UNDERFLOW {
		b.t.Errorf("%v: %v", m, res)
	}
	out := told{applied: res.GetApplied()}
	if m.from != cash {
		out.from, r = r[0].GetNewBalance(), r[1:]
	}
	if m.to != cash {
		out.to = r[0].GetNewBalance()
	}
	b.note(id, m, out, called)
}

// again repeats an applied request and expects the same answer. It also checks that the node
// refuses other operations under the same request id.
func (b *bank) again(req *quoratev1.ApplyOpsRequest, res *quoratev1.ApplyOpsResponse, rng *rand.Rand) {
	if !res.GetApplied() {
		return
	}
	second, err := b.ask(rng.IntN(len(b.nodes)), req)
	if err == nil && (!second.GetRepeated() || !slices.EqualFunc(res.GetResults(), second.GetResults(), func(x, y *quoratev1.OpResult) bool { return x.String() == y.String() })) {
		b.t.Errorf("%s again: %v; the first time %v", req.GetRequestId(), second, res)
	}
	other := &quoratev1.ApplyOpsRequest{RequestId: req.GetRequestId(), Ops: slices.Concat(req.GetOps(), req.GetOps())}
	if _, err := b.ask(rng.IntN(len(b.nodes)), other); rpcstatus.Code(err) != codes.AlreadyExists && !mayRepeat(err) {
		b.t.Errorf("%s with other operations: %v", req.GetRequestId(), err)
	}
}

// read reads whole groups in one call and records the balances. A failed read proves nothing.
func (b *bank) read(ctx context.Context, id, node int, groups []int) error {
	req := &quoratev1.GetAccountsRequest{}
	for _, g := range groups {
		for i := range perGroup {
			req.Accounts = append(req.Accounts, b.account(g, i))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	called := time.Since(b.began)
	res, err := b.nodes[node].GetAccounts(ctx, req)
	if err != nil {
		return err
	}
	sum := int64(0)
	for n, g := range groups {
		var out told
		for i := range perGroup {
			out.all[i] = res.GetAccounts()[n*perGroup+i].GetAccount().GetBalance()
			sum += out.all[i]
		}
		b.note(id, move{group: g}, out, called)
	}
	if want := int64(len(groups) * perGroup * opening); sum != want && groups[0] < bankGroups-cashGroups {
		b.t.Errorf("groups %v have %d in one reading, want %d", groups, sum, want)
	}
	return nil
}

// last reads every group at every node, so that the check covers what is there in the end.
func (b *bank) last() error {
	for node := range b.nodes {
		for g := range bankGroups {
			if err := b.read(context.Background(), bankGroups*tellers+1, node, []int{g}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bank) note(id int, m move, out told, called time.Duration) {
	b.record(porcupine.Operation{ClientId: id, Input: m, Call: int64(called), Output: out, Return: int64(time.Since(b.began))})
}

func (b *bank) record(op porcupine.Operation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.history = append(b.history, op)
}

// bankModel is the sequential specification of one group.
var bankModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		out := make([][]porcupine.Operation, bankGroups)
		for _, op := range history {
			g := op.Input.(move).group
			out[g] = append(out[g], op)
		}
		return out
	},
	Init: func() any {
		var s [perGroup]int64
		for i := range s {
			s[i] = opening
		}
		return s
	},
	Step: func(state, input, output any) (bool, any) {
		s, m, out := state.([perGroup]int64), input.(move), output.(told)
		switch {
		case m.from == m.to:
			return out.all == s, s
		case out.unknown && (m.from != cash && s[m.from] < m.amount):
			return true, s // refused, if it was carried out now
		case !out.applied && !out.unknown:
			return m.from != cash && s[m.from] < m.amount, s
		}
		fits := true
		if m.from != cash {
			s[m.from] -= m.amount
			fits = s[m.from] >= 0 && (out.unknown || out.from == s[m.from])
		}
		if m.to != cash {
			s[m.to] += m.amount
			fits = fits && (out.unknown || out.to == s[m.to])
		}
		return fits, s
	},
	Equal: func(a, b any) bool { return a.([perGroup]int64) == b.([perGroup]int64) },
	DescribeOperation: func(input, output any) string {
		m, out := input.(move), output.(told)
		if m.from == m.to {
			return fmt.Sprintf("read -> %v", out.all)
		}
		if out.unknown {
			return fmt.Sprintf("%d: %d->%d -> unknown", m.amount, m.from, m.to)
		}
		return fmt.Sprintf("%d: %d->%d -> %v %d %d", m.amount, m.from, m.to, out.applied, out.from, out.to)
	},
}

// answers returns how many operations have been answered so far.
func (b *bank) answers() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, op := range b.history {
		if op.Return != noReturn {
			n++
		}
	}
	return n
}

// moved returns how many moves were answered as applied, and unknown how many have no answer.
func (b *bank) moved() int   { return b.number(func(out told) bool { return out.applied }) }
func (b *bank) unknown() int { return b.number(func(out told) bool { return out.unknown }) }

func (b *bank) number(which func(told) bool) (n int) {
	for _, op := range b.history {
		if m := op.Input.(move); m.from != m.to && which(op.Output.(told)) {
			n++
		}
	}
	return n
}

// judge waits for the tellers and checks the recorded history against the model. It returns the
// verdict.
func (b *bank) judge() porcupine.CheckResult {
	b.t.Helper()
	b.wg.Wait()
	moved := b.moved()
	read := len(b.history) - b.number(func(told) bool { return true })
	b.t.Logf("%d operations: %d moves applied, %d of unknown outcome, %d readings of a group; %d calls were made again, %d of those were answered as repeated, %d were refused",
		len(b.history), moved, b.unknown(), read, b.resent.Load(), b.repeated.Load(), b.usedUp.Load())
	if moved == 0 || read == 0 {
		b.t.Error("nothing was done")
	}
	result, info := porcupine.CheckOperationsVerbose(bankModel, b.history, 2*time.Minute)
	if result != porcupine.Ok {
		path := fmt.Sprintf("%s/history.html", b.t.ArtifactDir())
		if err := porcupine.VisualizePath(bankModel, info, path); err != nil {
			b.t.Log(err)
		}
		b.t.Errorf("the history is not linearizable (%s): %s", result, path)
		for g, history := range bankModel.Partition(b.history) {
			if porcupine.CheckOperationsTimeout(bankModel, history, 2*time.Minute) == porcupine.Ok {
				continue
			}
			slices.SortFunc(history, func(x, y porcupine.Operation) int { return cmp.Compare(x.Call, y.Call) })
			for _, op := range history {
				b.t.Logf("group %d: %v to %v, teller %d: %s", g, time.Duration(op.Call), time.Duration(op.Return), op.ClientId, bankModel.DescribeOperation(op.Input, op.Output))
			}
		}
	}
	return result
}
