package accounts

import (
	"context"
	"crypto/rand"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// turns are the lines for the accounts of the ranges that this node leads; calls from all nodes
// wait in them. A transaction begins nothing at accounts where another one has its turn. Turns are
// in memory only and decide nothing: the range's log determines what holds an account. If a node
// dies and its turns are lost, transactions conflict at the accounts instead.
type turns struct {
	lines lines

	mu    sync.Mutex
	given map[turnName]*turn
}

// turnName identifies a call at a range.
type turnName struct {
	r  quota.RangeID
	tx account.TxID
}

// turn is a call that waits in line or has its turn.
type turn struct {
	cancel context.CancelFunc // ends the wait
	leave  func()             // nil while it waits
	ids    []account.ID
	over   bool
}

// turnLimit ends a turn, because the node that took it may have died. It is safe for a turn to end
// early: turns only avoid conflicts.
const turnLimit = 3 * time.Second

// acquire waits until it is the call's turn at all of the accounts. It returns false if ctx ends
// first, if the call leaves, or if a bound of the lines is reached.
func (t *turns) acquire(ctx context.Context, owner string, name turnName, ids []account.ID) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	mine := &turn{cancel: cancel, ids: ids}
	t.mu.Lock()
	if t.given[name] != nil { // the message was duplicated
		t.mu.Unlock()
		return false
	}
	if t.given == nil {
		t.given = map[turnName]*turn{}
	}
	t.given[name] = mine
	t.mu.Unlock()
	leave, all := t.lines.enterAll(ctx, owner, ids)
	t.mu.Lock()
	if !all || mine.over {
		delete(t.given, name)
		t.mu.Unlock()
		leave()
		return false
	}
	mine.leave = leave
	t.mu.Unlock()
	time.AfterFunc(turnLimit, func() { t.endOf(name, mine) })
	return true
}

// end ends a turn, or the wait for it, if it exists.
func (t *turns) end(name turnName) { t.endOf(name, nil) }

// endOf is like end, but if only is not nil, it ends no other turn.
func (t *turns) endOf(name turnName, only *turn) {
	t.mu.Lock()
	mine := t.given[name]
	if mine == nil || only != nil && mine != only {
		t.mu.Unlock()
		return
	}
	if mine.leave == nil { // acquire checks over
		mine.over = true
		t.mu.Unlock()
		mine.cancel()
		return
	}
	delete(t.given, name)
	t.mu.Unlock()
	mine.leave()
}

// blocks reports whether another call has its turn at an account that the command would hold. A
// command that holds no account may always proceed.
func (t *turns) blocks(r quota.RangeID, c *account.Command) bool {
	var tx account.TxID
	var request *account.Request
	switch {
	case c.Begin != nil:
		tx, request = c.Begin.Tx, &c.Begin.Part
	case c.Prepare != nil:
		tx, request = c.Prepare.Tx.ID, &c.Prepare.Part
	default:
		return false
	}
	t.mu.Lock()
	mine := t.given[turnName{r, tx}]
	has := mine != nil && mine.leave != nil
	t.mu.Unlock()
	if has {
		return false
	}
	return slices.ContainsFunc(request.Ops, func(o account.Op) bool { return t.lines.busy(o.Account) })
}

// endWith ends the turns of the transactions that the commands finish at a range. The next
// transactions may proceed at once, since their commands follow in the log.
func (t *turns) endWith(r quota.RangeID, batch []*pending) {
	for _, p := range batch {
		switch {
		case p.cmd.Decide != nil:
			t.end(turnName{r, p.cmd.Decide.Tx})
		case p.cmd.Finish != nil:
			t.end(turnName{r, p.cmd.Finish.Tx})
		}
	}
}

// newTx returns a unique transaction ID.
func newTx() (id account.TxID) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}

// awaitTurn waits for a transaction's turn at the accounts of one part, at the leader of its range.
// If it returns false, the transaction continues without its turn.
func (s *Service) awaitTurn(ctx context.Context, tx account.TxID, p *part) bool {
	leader := s.leader(p.id)
	if leader == s.cfg.Self {
		return s.turns.acquire(ctx, p.owner, turnName{p.id, tx}, p.accounts())
	}
	if leader == "" {
		return false
	}
	wait := callLimit
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(end))
	}
	msg := &peerv1.CallTurn{Range: uint32(p.id), Tx: tx[:], WaitMillis: uint32(max(wait, 0).Milliseconds())}
	for _, id := range p.accounts() {
		msg.Accounts = append(msg.Accounts, encodeID(id))
	}
	a, err := s.node.Call(ctx, leader, &peerv1.Call{Body: &peerv1.Call_Turn{Turn: msg}})
	return err == nil && a.GetTurnResult().GetTaken()
}

// leaveTurns ends the turns of a call, or its waits for them, at the parts that match selects.
func (s *Service) leaveTurns(tx account.TxID, parts []part, match func(p *part) bool) {
	for i := range parts {
		p := &parts[i]
		if !match(p) {
			continue
		}
		leader := s.leader(p.id)
		if leader == s.cfg.Self {
			s.turns.end(turnName{p.id, tx})
			continue
		}
		if leader == "" {
			continue
		}
		msg := &peerv1.Call{Body: &peerv1.Call_Turn{Turn: &peerv1.CallTurn{Range: uint32(p.id), Tx: tx[:], Leave: true}}}
		s.spawn(func() {
			ctx, cancel := context.WithTimeout(s.ctx, tryLimit)
			defer cancel()
			_, _ = s.node.Call(ctx, leader, msg) // if the message is lost, turnLimit ends the turn
		})
	}
}

// turnFor takes or ends a turn for a call of another node, for which its place in line counts: its callers share its own
// lines, and are not known here.
func (s *Service) turnFor(from quota.NodeID, c *peerv1.CallTurn) *peerv1.CallTurnResult {
	out := &peerv1.CallTurnResult{}
	r := quota.RangeID(c.GetRange())
	if len(c.GetTx()) != len(account.TxID{}) || int(r) >= s.cfg.Ranges || len(c.GetAccounts()) > account.MaxOps {
		return out
	}
	name := turnName{r, account.TxID(c.GetTx())}
	if c.GetLeave() {
		s.turns.end(name)
		return out
	}
	if s.leader(r) != s.cfg.Self {
		return out
	}
	ids := make([]account.ID, len(c.GetAccounts()))
	for i, a := range c.GetAccounts() {
		ids[i] = decodeID(a)
	}
	ctx, cancel := context.WithTimeout(s.ctx, min(time.Duration(c.GetWaitMillis())*time.Millisecond, callLimit))
	defer cancel()
	out.Taken = s.turns.acquire(ctx, ownerOf(from), name, ids)
	return out
}

// hot tracks the accounts at which this node's transactions recently met others: the next
// transactions wait in line at once. Two accounts may share a slot; then one waits in line
// needlessly.
type hot struct{ until [1024]atomic.Int64 } // in nanoseconds since the epoch

// hotLimit is how long hot remembers an account.
const hotLimit = 2 * time.Second

var hotSeed = maphash.MakeSeed()

func (h *hot) place(id account.ID) *atomic.Int64 {
	return &h.until[maphash.Comparable(hotSeed, id)%uint64(len(h.until))]
}

func (h *hot) note(parts []part) {
	until := time.Now().Add(hotLimit).UnixNano()
	for i := range parts {
		for j := range parts[i].request.Ops {
			h.place(parts[i].request.Ops[j].Account).Store(until)
		}
	}
}

func (h *hot) any(parts []part) bool {
	now := time.Now().UnixNano()
	for i := range parts {
		for j := range parts[i].request.Ops {
			if h.place(parts[i].request.Ops[j].Account).Load() > now {
				return true
			}
		}
	}
	return false
}
