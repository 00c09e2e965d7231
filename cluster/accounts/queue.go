package accounts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// queue is the commands of this node, and of others that take it for the leader, for
// one range. Those that come while an entry is being committed, or a message is under
// way, are in the next.
type queue struct {
	service *Service
	id      quota.RangeID
	gate    gate

	mu      sync.Mutex
	waiting []*pending
	flying  int // goroutines that commit
}

// pending is one command that waits. out and err are set once done is closed.
type pending struct {
	cmd    account.Command
	size   int  // bytes, about
	passed bool // by another node: it is passed on no further
	sent   bool // it is in an entry or a message; guarded by queue.mu
	out    account.Outcome
	err    error
	done   chan struct{}
}

func newPending(c account.Command, passed bool) *pending {
	return &pending{cmd: c, size: sizeOf(&c), passed: passed, done: make(chan struct{})}
}

// once tries once to have a command carried out. errNotLeader and errOverloaded mean
// that it was not and will not be.
func (q *queue) once(ctx context.Context, c *account.Command) (account.Outcome, error) {
	p := newPending(*c, false)
	if err := q.push(p); err != nil {
		return account.Outcome{}, err
	}
	if err := q.await(ctx, p); err != nil {
		return account.Outcome{}, err
	}
	return p.out, nil
}

// await waits for the outcome of a command that was pushed.
func (q *queue) await(ctx context.Context, p *pending) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return q.leave(ctx, p)
	}
}

func (q *queue) push(p *pending) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) >= maxQueue {
		q.service.stats.overloads.Inc()
		return fmt.Errorf("%w: %d for range %d; at most %d", errOverloaded, len(q.waiting), q.id, maxQueue)
	}
	if q.flying < maxFlying {
		if !q.service.spawn(q.run) {
			return fmt.Errorf("%w: %w", errNotLeader, errClosing)
		}
		q.flying++
	}
	q.waiting = append(q.waiting, p)
	return nil
}

// leave ends the wait: a command that has not left does not.
func (q *queue) leave(ctx context.Context, p *pending) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if p.sent {
		return fmt.Errorf("%w: %w", errUnknown, context.Cause(ctx))
	}
	q.waiting = slices.DeleteFunc(q.waiting, func(other *pending) bool { return other == p })
	return fmt.Errorf("%w: %w", errNotLeader, context.Cause(ctx))
}

// run carries out what waits until nothing does.
func (q *queue) run() {
	for {
		batch := q.next()
		if len(batch) == 0 {
			return
		}
		q.carry(batch)
		for _, p := range batch {
			close(p.done)
		}
	}
}

// next takes the commands of the next entry out of the queue; none ends the
// goroutine.
func (q *queue) next() []*pending {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, bytes := 0, 0
	for n < min(len(q.waiting), maxBatch) {
		if bytes += q.waiting[n].size; n > 0 && bytes > maxBatchBytes {
			break
		}
		n++
	}
	if n == 0 {
		q.flying--
		return nil
	}
	batch := slices.Clone(q.waiting[:n])
	q.waiting = slices.Delete(q.waiting, 0, n)
	for _, p := range batch {
		p.sent = true
	}
	return batch
}

// carry puts the commands into one entry of the log, if this node leads the range,
// else into one message to its leader, and notes the outcomes.
func (q *queue) carry(batch []*pending) {
	leader := q.service.leader(q.id)
	if leader == q.service.cfg.Self {
		q.propose(batch)
		return
	}
	forward := make([]*pending, 0, len(batch))
	for _, p := range batch {
		if p.passed || leader == "" {
			p.err = fmt.Errorf("%w: range %d has none that %s knows", errNotLeader, q.id, q.service.cfg.Self)
			continue
		}
		forward = append(forward, p)
	}
	if len(forward) > 0 {
		q.forward(leader, forward)
	}
}

// fail notes one error for all.
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

// propose has the log take the commands.
func (q *queue) propose(batch []*pending) {
	s := q.service
	g := s.node.Group(q.id)
	if g == nil {
		fail(batch, fmt.Errorf("%w: the range is not open here", errNotLeader))
		return
	}
	batch, leave := q.gate.enter(batch)
	defer leave()
	if len(batch) == 0 {
		return
	}
	data, err := entry(s.node.Now(), q.commands(batch))
	if err != nil {
		fail(batch, fmt.Errorf("%w: %w", errRefused, err))
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, tryLimit)
	defer cancel()
	start := time.Now()
	replica := s.cfg.Replicas[q.id]
	replica.propose(data)
	result, err := g.Apply(ctx, data)
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

// length is the number of commands that wait.
func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// sizeOf is about how many bytes a command has in an entry, rather too many.
func sizeOf(c *account.Command) int {
	const rest = 64 // of each message, beside its strings
	var r *account.Request
	size := rest
	switch {
	case c.Apply != nil:
		r = c.Apply
	case c.Begin != nil:
		r = &c.Begin.Part
		size += 8 * len(c.Begin.Others)
	case c.Prepare != nil:
		r = &c.Prepare.Part
	case c.Decide != nil:
		for i := range c.Decide.Results {
			size += rest + len(c.Decide.Results[i].Message)
		}
		return size
	default:
		return size
	}
	size += rest + len(r.By) + len(r.ID)
	for i := range r.Ops {
		o := &r.Ops[i]
		size += rest + sizeOfID(&o.Account)
		if p := o.Policy; p != nil {
			size += rest + len(p.Config.App) + len(p.Config.Realm) + len(p.Config.Version) + len(p.Key.Namespace) + len(p.Key.Name) + len(p.Key.Resource)
		}
	}
	return size
}

func sizeOfID(id *account.ID) int {
	return len(id.App) + len(id.Realm) + len(id.Identity) + len(id.Namespace) + len(id.Name) + len(id.Resource)
}
