package account

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// bank is three ranges, and coordinators that move money between their accounts. Their messages
// arrive late, twice, or never, and they crash at any step.
type bank struct {
	*rand.Rand
	t        *testing.T
	w        *world
	ranges   map[quota.RangeID]*Store
	mail     []letter
	moves    []*move
	names    byte
	restored int
	joined   int // moves that were committed together with another
}

// letter is a command on its way to a range. reply is nil if no coordinator waits for the answer.
type letter struct {
	to    quota.RangeID
	c     Command
	reply func(Outcome)
}

// move is one request of a client, which repeats it until it has an answer.
type move struct {
	id       string
	request  [2]*Request // parts, in the order of their ranges, home first
	at       [2]quota.RangeID
	delta    map[string]int64
	answered bool
	attempt  *attempt // the current one
	alone    bool     // later attempts do not join it with other moves
}

// attempt is one coordinator.
type attempt struct {
	tx       Tx
	moves    []*move // all between the same ranges
	at       [2]quota.RangeID
	parts    [2]*Outcome
	decided  bool
	finished bool
}

const bankAccounts = 4 // per range

func bankAccount(r quota.RangeID, i int) string { return fmt.Sprintf("r%d-%d", r, i) }

func newBank(t *testing.T, seed uint64) *bank {
	b := &bank{Rand: rand.New(rand.NewPCG(seed, 7)), t: t, w: newWorld(t), ranges: map[quota.RangeID]*Store{}}
	p := b.w.load("p", Policy{Default: 1000, Limit: 1_000_000})
	for r := range quota.RangeID(3) {
		b.ranges[r] = New(Bounds{})
		for i := range bankAccounts {
			b.w.apply(b.ranges[r], Command{Apply: b.w.request("", "", op(bankAccount(r, i), 0, p))})
		}
	}
	return b
}

// newMoves makes one to four moves between two ranges.
func (b *bank) newMoves() {
	from := quota.RangeID(b.IntN(3))
	to := (from + 1 + quota.RangeID(b.IntN(2))) % 3
	for range 1 + b.IntN(4) {
		b.newMove(from, to)
	}
}

func (b *bank) newMove(from, to quota.RangeID) {
	units := 1 + b.Int64N(50)
	one, two := bankAccount(from, b.IntN(bankAccounts)), bankAccount(to, b.IntN(bankAccounts))
	ops := []Op{op(one, -units, nil).with(IgnorePolicyBounds), op(two, units, nil).with(IgnorePolicyBounds)}
	id := fmt.Sprint("move-", len(b.moves))
	m := &move{id: id, at: [2]quota.RangeID{from, to}, delta: map[string]int64{one: -units, two: units}}
	for i := range ops {
		r := b.w.request("bank", id, ops[i])
		r.Hash, r.Indexes = HashOps(ops), []int32{int32(i)}
		m.request[i] = r
	}
	b.moves = append(b.moves, m)
}

// start begins a new attempt at a move, and joins other waiting moves between the same ranges.
func (b *bank) start(m *move) {
	b.names++
	a := &attempt{tx: Tx{ID: TxID{b.names, byte(b.Uint32()), byte(b.Uint32()), byte(b.Uint32())}, Home: m.at[0]}, moves: []*move{m}, at: m.at}
	m.attempt = a
	var more [2][]Request
	for _, o := range b.moves {
		if !m.alone && !o.alone && !o.answered && o.attempt == nil && o.at == m.at {
			o.attempt = a
			a.moves = append(a.moves, o)
			for i := range more {
				more[i] = append(more[i], *o.request[i])
			}
		}
	}
	b.send(letter{m.at[0], Command{Begin: &Begin{Tx: a.tx.ID, Home: a.tx.Home, Others: []quota.RangeID{m.at[1]}, Part: *m.request[0], More: more[0]}}, a.reply(0)})
	b.send(letter{m.at[1], Command{Prepare: &Prepare{Tx: a.tx, Part: *m.request[1], More: more[1]}}, a.reply(1)})
}

// reply keeps the first answer of a part.
func (a *attempt) reply(part int) func(Outcome) {
	return func(o Outcome) {
		if a.parts[part] == nil {
			a.parts[part] = &o
		}
	}
}

// send puts a letter into the mail once, several times, or never.
func (b *bank) send(l letter) {
	for range []int{0, 1, 1, 1, 1, 1, 1, 1, 2, 3}[b.IntN(10)] {
		b.mail = append(b.mail, l)
	}
}

// deliver delivers a random letter. The answer may be lost.
func (b *bank) deliver() {
	if len(b.mail) == 0 {
		return
	}
	i := b.IntN(len(b.mail))
	l := b.mail[i]
	b.mail = slices.Delete(b.mail, i, i+1)
	out := b.w.apply(b.ranges[l.to], l.c)
	if l.reply != nil && b.IntN(10) > 0 {
		l.reply(out)
	}
}

// step advances one coordinator.
func (b *bank) step(a *attempt) {
	if m := a.moves[0]; len(a.moves) == 1 && a.parts[0] != nil && a.parts[0].Code == Repeated {
		b.checkAnswer(m, a.parts[0].Results)
		m.answered = true
	}
	if a.parts[0] == nil || a.parts[1] == nil {
		return
	}
	if a.parts[0].Code != Done || a.parts[1].Code != Done {
		for _, m := range a.moves {
			m.alone = m.alone || a.parts[0].Code == Repeated
		}
		b.end(a, false)
		return
	}
	if a.decided {
		return
	}
	a.decided = true
	d := &Decide{Tx: a.tx.ID, Commit: true}
	for i, m := range a.moves {
		results := []Result{a.parts[0].Results[i], a.parts[1].Results[i]}
		b.checkAnswer(m, results)
		if i == 0 {
			d.Results = results
		} else {
			d.More = append(d.More, results)
		}
	}
	b.send(letter{a.tx.Home, Command{Decide: d}, func(o Outcome) {
		switch o.Code {
		case Done, Committed:
			for _, m := range a.moves {
				m.answered = true
			}
			b.joined += len(a.moves) - 1
			b.end(a, true)
		case Aborted:
			b.end(a, false)
		default:
			b.t.Errorf("%s: decide: %+v", a.moves[0].id, o)
		}
	}})
}

// checkAnswer checks that the results match the move.
func (b *bank) checkAnswer(m *move, results []Result) {
	b.t.Helper()
	for i := range results {
		if got, want := results[i].New-results[i].Previous, m.delta[m.request[i].Ops[0].Account.Name]; got != want || len(results) != 2 {
			b.t.Errorf("%s: operation %d of %d has changed its account by %d, want %d of 2", m.id, i, len(results), got, want)
		}
	}
}

// end finishes an attempt, so that the client can try again.
func (b *bank) end(a *attempt, commit bool) {
	for _, m := range a.moves {
		if m.attempt == a {
			m.attempt = nil
		}
	}
	if a.finished {
		return
	}
	a.finished = true
	if !commit {
		b.send(letter{a.tx.Home, Command{Decide: &Decide{Tx: a.tx.ID}}, nil})
	}
	b.send(letter{a.at[1], Command{Finish: &Finish{Tx: a.tx.ID, Commit: commit}}, func(Outcome) {
		b.send(letter{a.tx.Home, Command{Forget: &a.tx.ID}, nil})
	}})
}

// look resolves a range's old pending transactions, as its leader does.
func (b *bank) look(r quota.RangeID) {
	for _, p := range b.ranges[r].View().Pending(3) {
		if b.w.now.Sub(p.Since) < 3*time.Second {
			continue
		}
		home := b.ranges[p.Tx.Home]
		out := b.w.apply(home, Command{Decide: &Decide{Tx: p.Tx.ID}})
		commit := out.Code == Committed
		if !p.AtHome {
			b.w.apply(b.ranges[r], Command{Finish: &Finish{Tx: p.Tx.ID, Commit: commit}})
			continue
		}
		for _, other := range p.Others {
			b.w.apply(b.ranges[other], Command{Finish: &Finish{Tx: p.Tx.ID, Commit: commit}})
		}
		b.w.apply(home, Command{Forget: &p.Tx.ID})
	}
}

// total sums all balances, as they will be when every decision is carried out.
func (b *bank) total() int64 {
	var sum int64
	for r, s := range b.ranges {
		for i := range bankAccounts {
			name := bankAccount(r, i)
			sum += s.View().Get(b.w.now, testID(name)).Balance
			if h, held := s.holds.Get(hold{key: testID(name).key()}); held {
				sum += b.decidedChange(s, h)
			}
		}
	}
	return sum
}

// decidedChange returns what a commit that has not reached this range yet will add to an account.
func (b *bank) decidedChange(s *Store, h hold) int64 {
	if p, known := b.ranges[h.tx.Home].View().Decision(h.tx.ID); !known || !p.Commit {
		return 0
	}
	var change int64
	for _, p := range s.tx(h.tx.ID).parts {
		for _, r := range p.records {
			if r.key == h.key {
				change = r.balance - s.find(h.key).balance
			}
		}
	}
	return change
}

func (b *bank) checkTotal(when string) {
	b.t.Helper()
	if got, want := b.total(), int64(3*bankAccounts*1000); got != want {
		b.t.Fatalf("%s: the accounts have %d, want %d", when, got, want)
	}
}

func (b *bank) turn() {
	switch n := b.IntN(20); {
	case n == 0 && len(b.moves) < 40:
		b.newMoves()
	case n == 1:
		b.look(quota.RangeID(b.IntN(3)))
	case n == 2:
		b.w.pass(time.Duration(b.IntN(2000)) * time.Millisecond)
	case n == 3 && b.IntN(8) == 0:
		b.restart(quota.RangeID(b.IntN(3)))
	case n < 12:
		b.deliver()
	case len(b.moves) > 0:
		m := b.moves[b.IntN(len(b.moves))]
		switch {
		case m.attempt != nil && b.IntN(12) == 0:
			m.attempt = nil // the coordinator crashes; its messages are still under way
		case m.attempt != nil:
			b.step(m.attempt)
		case !m.answered:
			b.start(m)
		}
	}
}

// restart restores a range from its snapshot.
func (b *bank) restart(r quota.RangeID) {
	data := snapshotOf(b.t, b.ranges[r].View())
	b.ranges[r] = restored(b.t, data)
	b.restored++
}

// TestBank moves money between three ranges. The total is right after every step, and every move
// happens once, even with lost, duplicated or late messages.
func TestBank(t *testing.T) {
	if testing.Short() {
		t.Skip("runs for seconds in one goroutine; left out by -short")
	}
	for seed := range uint64(15) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			b := newBank(t, seed)
			for i := range 2500 {
				b.turn()
				b.checkTotal(fmt.Sprint("step ", i))
			}
			b.settle()
		})
	}
}

// settle runs until nothing is pending, and compares the balances with the moves.
func (b *bank) settle() {
	for i := 0; !b.quiet(); i++ {
		if i > 50_000 {
			b.t.Fatal("the moves come to no end")
		}
		b.turn()
		b.checkTotal("settling")
	}
	want := map[string]int64{}
	for _, m := range b.moves {
		for name, d := range m.delta {
			want[name] += d
		}
	}
	for r, s := range b.ranges {
		for i := range bankAccounts {
			name := bankAccount(r, i)
			check(b.t, name, s.View().Get(b.w.now, testID(name)).Balance, 1000+want[name])
		}
		checkIndexes(b.t, s)
		check(b.t, "transactions left", s.Stats().Transactions, 0)
	}
	if len(b.moves) < 20 || b.restored == 0 || b.joined == 0 {
		b.t.Errorf("%d moves, %d restarts, %d moves together with others: too few", len(b.moves), b.restored, b.joined)
	}
}

func (b *bank) quiet() bool {
	if len(b.mail) > 0 {
		return false
	}
	for _, m := range b.moves {
		if !m.answered || m.attempt != nil {
			return false
		}
	}
	for _, s := range b.ranges {
		if s.Stats().Transactions > 0 {
			return false
		}
	}
	return true
}
