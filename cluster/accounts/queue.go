package accounts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/fairshare"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/snapshotio"
)

// queue holds the commands for one range from this node and from others that take it for the
// leader. At the leader, commands that arrive while an entry is being committed go into the next
// one. At other nodes they leave soon, so that they are at the leader when the next entry begins.
type queue struct {
	service *Service
	id      quota.RangeID
	gate    gate

	mu         sync.Mutex
	waiting    []*pending
	places     *fairshare.Pool // one for each waiting command, shared among owners
	committers [2]int          // goroutines that commit entries, and that send messages
	forgetsDue bool            // the waiting Forgets have waited long enough
	timer      bool            // runs until they have
}

// pending is a waiting command. out and err are set before done is closed.
type pending struct {
	cmd    account.Command
	owner  string // whom its place counts for; "" for what ends a call, and for this node's own
	size   int    // bytes, estimated
	answer int    // maximum bytes of the outcome
	passed bool   // forwarded by another node, so it is not forwarded again
	sent   bool   // in an entry or a message; guarded by queue.mu
	out    account.Outcome
	err    error
	done   chan struct{}
}

// newPending returns a command of an owner. What ends a call counts for nobody, so that what an owner has begun can end
// while its share is used up.
func newPending(c account.Command, owner string, passed bool) *pending {
	p := &pending{cmd: c, size: sizeOf(&c), passed: passed, done: make(chan struct{})}
	if c.Apply != nil || c.Begin != nil || c.Prepare != nil {
		p.owner = owner
	}
	p.answer = answerOf(&c, p.size)
	return p
}

// tryOnce tries to have a command carried out once. errNotLeader and errOverloaded mean that it was
// not applied and never will be.
func (q *queue) tryOnce(ctx context.Context, owner string, c *account.Command) (account.Outcome, error) {
	p := newPending(*c, owner, false)
	if err := q.push(p); err != nil {
		return account.Outcome{}, err
	}
	if err := q.await(ctx, p); err != nil {
		return account.Outcome{}, err
	}
	return p.out, nil
}

// await waits for the outcome of a pushed command, until ctx ends.
func (q *queue) await(ctx context.Context, p *pending) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return q.leave(ctx, p)
	}
}

// push adds a command to the queue. It returns an error with errOverloaded if the queue, or the share of the command's
// owner, is full, and one with errNotLeader if the service is closed. Then the command is never applied.
func (q *queue) push(p *pending) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if full := q.places.TryAcquire(p.owner, 1); full != fairshare.NotFull {
		q.service.stats.overloads.Inc()
		if full == fairshare.Each {
			return fmt.Errorf("%w: %d for range %d, of which %s has as many as one caller may", errOverloaded, len(q.waiting), q.id, p.owner)
		}
		return fmt.Errorf("%w: %d for range %d; at most %d", errOverloaded, len(q.waiting), q.id, maxQueue)
	}
	if p.cmd.Forget != nil {
		if !q.timer {
			q.timer = true
			time.AfterFunc(forgetPause, q.commitForgets)
		}
	} else if !q.startCommitter() {
		q.places.Release(p.owner, 1)
		return fmt.Errorf("%w: %w", errNotLeader, errClosing)
	}
	q.waiting = append(q.waiting, p)
	return nil
}

// startCommitter starts a goroutine for the waiting commands unless enough are running. It returns false if
// the service is closed. The caller holds q.mu.
func (q *queue) startCommitter() bool {
	k := q.kind()
	if q.committers[k] >= maxCommitters[k] {
		return true
	}
	if !q.service.spawn(func() { q.run(k) }) {
		return false
	}
	q.committers[k]++
	return true
}

// kind distinguishes goroutines that commit entries from those that send messages. Each kind has its own bound, so that
// unanswered messages to an earlier leader do not delay the entries of this node.
type kind int

const (
	entry kind = iota
	message
)

var maxCommitters = [...]int{entry: maxEntries, message: maxMessages}

// kind returns what commands go into now.
func (q *queue) kind() kind {
	if q.service.leader(q.id) == q.service.cfg.Self {
		return entry
	}
	return message
}

// forgetPause is the longest that a Forget waits for other commands to share an entry with: no
// caller waits for a Forget, and an entry of its own costs the range as much as any other.
const forgetPause = 20 * time.Millisecond

// commitForgets is called when the waiting Forgets have waited for forgetPause: they are committed now.
func (q *queue) commitForgets() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.timer = false
	if len(q.waiting) > 0 {
		q.forgetsDue = true
		q.startCommitter() // if the service is closed, the waiters leave by themselves
	}
}

// hasDue reports whether a waiting command must be committed now: any but a Forget, or Forgets that have waited for
// forgetPause. The caller holds q.mu.
func (q *queue) hasDue() bool {
	return q.forgetsDue || slices.ContainsFunc(q.waiting, func(p *pending) bool { return p.cmd.Forget == nil })
}

// leave ends the wait for a command. It removes the command from the queue unless it was already
// sent.
func (q *queue) leave(ctx context.Context, p *pending) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if p.sent {
		return fmt.Errorf("%w: %w", errUnknown, context.Cause(ctx))
	}
	if at := slices.Index(q.waiting, p); at >= 0 { // otherwise push has refused it
		q.waiting = slices.Delete(q.waiting, at, at+1)
		q.places.Release(p.owner, 1)
	}
	return fmt.Errorf("%w: %w", errNotLeader, context.Cause(ctx))
}

// run carries out the waiting commands until none is left.
func (q *queue) run(k kind) {
	for {
		batch := q.next(&k)
		if len(batch) == 0 {
			return
		}
		q.commitBatch(batch)
		for _, p := range batch {
			close(p.done)
		}
	}
}

// next removes the commands of the next entry or message from the queue, and sets k. It returns none if the goroutine must
// end.
func (q *queue) next(k *kind) []*pending {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.committers[*k]--
	n, bytes, answer := 0, 0, 0
	for n < min(len(q.waiting), maxBatch) {
		bytes += q.waiting[n].size
		answer += q.waiting[n].answer
		if n > 0 && (bytes > maxBatchBytes || answer > maxAnswerBytes) {
			break
		}
		n++
	}
	if n == 0 || !q.hasDue() {
		return nil
	}
	if *k = q.kind(); q.committers[*k] >= maxCommitters[*k] {
		return nil
	}
	q.committers[*k]++
	q.forgetsDue = q.forgetsDue && n < len(q.waiting)
	batch := slices.Clone(q.waiting[:n])
	q.waiting = slices.Delete(q.waiting, 0, n)
	for _, p := range batch {
		p.sent = true
		q.places.Release(p.owner, 1)
	}
	return batch
}

// commitBatch puts the commands into one log entry if this node leads the range, else into one message to
// the leader, and stores the outcomes.
func (q *queue) commitBatch(batch []*pending) {
	leader := q.service.leader(q.id)
	if leader == q.service.cfg.Self {
		q.propose(batch)
		return
	}
	forward := make([]*pending, 0, len(batch))
	for _, p := range batch {
		if p.passed || leader == "" {
			p.err = fmt.Errorf("%w: range %d has no leader known to %s", errNotLeader, q.id, q.service.cfg.Self)
			continue
		}
		forward = append(forward, p)
	}
	if len(forward) > 0 {
		q.forward(leader, forward)
	}
}

// fail sets the same error on all commands.
func fail(batch []*pending, err error) {
	for _, p := range batch {
		p.err = err
	}
}

func (q *queue) commands(batch []*pending) []account.Command {
	out := make([]account.Command, len(batch))
	for i, p := range batch {
		out[i] = p.cmd
	}
	return out
}

// withoutBlocked answers Held to the commands that would hold accounts at which another call has its
// turn, and returns the rest.
func (q *queue) withoutBlocked(batch []*pending) []*pending {
	out := make([]*pending, 0, len(batch))
	for _, p := range batch {
		if q.service.turns.blocks(q.id, &p.cmd) {
			p.out = account.Outcome{Code: account.Held}
			continue
		}
		out = append(out, p)
	}
	return out
}

// propose proposes the commands to the range's log and stores the outcomes.
func (q *queue) propose(batch []*pending) {
	s := q.service
	g := s.node.Group(q.id)
	if g == nil {
		fail(batch, fmt.Errorf("%w: the range is not open here", errNotLeader))
		return
	}
	batch, leave := q.gate.enter(q.withoutBlocked(batch))
	defer leave()
	if len(batch) == 0 {
		return
	}
	replica := s.cfg.Replicas[q.id]
	data, err := account.EncodeBatch(s.now(replica), q.commands(batch))
	if err != nil {
		fail(batch, fmt.Errorf("%w: %w", errRefused, err))
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, tryLimit)
	defer cancel()
	start := time.Now()
	replica.propose(data)
	s.turns.endWith(q.id, batch)
	result, err := g.Apply(ctx, snapshotio.Encode(&raftlogv1.RangeCommand{Change: &raftlogv1.RangeCommand_Accounts{Accounts: data}}))
	if err != nil {
		if err = logError(err); !errors.Is(err, errUnknown) {
			replica.forgo(data)
		}
		fail(batch, err)
		return
	}
	s.stats.batch.Observe(float64(len(batch)))
	s.stats.commit.Observe(time.Since(start).Seconds())
	out, err := outcomes(result, len(batch))
	if err != nil {
		fail(batch, fmt.Errorf("%w: %w", errRefused, err))
		return
	}
	for i, p := range batch {
		p.out = out[i]
	}
}

// length returns the number of waiting commands.
func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// baseSize is the estimated size of a message in bytes, without its strings.
const baseSize = 64

// sizeOf estimates how many bytes a command takes in an entry; it errs on the high side.
func sizeOf(c *account.Command) int {
	size := baseSize
	switch {
	case c.Apply != nil:
		size += sizeOfRequest(c.Apply)
	case c.Begin != nil:
		size += sizeOfRequests(&c.Begin.Part, c.Begin.More) + 8*len(c.Begin.Others)
	case c.Prepare != nil:
		size += sizeOfRequests(&c.Prepare.Part, c.Prepare.More)
	case c.Decide != nil:
		size += sizeOfResults(c.Decide.Results)
		for _, results := range c.Decide.More {
			size += baseSize + sizeOfResults(results)
		}
	}
	return size
}

func sizeOfResults(list []account.Result) (size int) {
	for i := range list {
		size += baseSize + len(list[i].Message)
	}
	return size
}

func sizeOfRequests(first *account.Request, more []account.Request) int {
	size := sizeOfRequest(first)
	for i := range more {
		size += sizeOfRequest(&more[i])
	}
	return size
}

func sizeOfRequest(r *account.Request) int {
	size := baseSize + len(r.By) + len(r.ID)
	for i := range r.Ops {
		o := &r.Ops[i]
		size += baseSize + sizeOfID(&o.Account)
		if p := o.Policy; p != nil {
			size += baseSize + len(p.Config.App) + len(p.Config.Realm) + len(p.Config.Version) + len(p.Key.Namespace) + len(p.Key.Name) + len(p.Key.Resource)
		}
	}
	return size
}

// answerOf returns the maximum size in bytes of the outcome of a command of the given size. For
// each operation, the outcome has numbers, the name of the policy that applied, which is the
// account's and need not be in the command, and a message, which quotes the command. The home range
// answers a repeated transaction with the numbers of all its operations.
func answerOf(c *account.Command, size int) int {
	const (
		numbers = 64
		policy  = 6 * (account.MaxAtom + 4) // the parts of its name
		result  = numbers + policy + 256    // 256: the text of a message
		quoted  = 4                         // bytes to quote an unprintable byte
	)
	answer := quoted * size
	each := func(first *account.Request, more []account.Request) {
		answer += len(first.Ops) * result
		for i := range more {
			answer += len(more[i].Ops) * result
		}
	}
	switch {
	case c.Apply != nil:
		each(c.Apply, nil)
	case c.Begin != nil:
		each(&c.Begin.Part, c.Begin.More)
		if c.Begin.Part.ID != "" || len(c.Begin.More) > 0 {
			answer += account.MaxOps * numbers
		}
	case c.Prepare != nil:
		each(&c.Prepare.Part, c.Prepare.More)
	}
	return answer
}

func sizeOfID(id *account.ID) int {
	return len(id.App) + len(id.Realm) + len(id.Identity) + len(id.Namespace) + len(id.Name) + len(id.Resource)
}
