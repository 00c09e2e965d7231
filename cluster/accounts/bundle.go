package accounts

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/account"
)

// bundles groups multi-range calls that wait in line at this node for the same accounts. The first
// call waits on behalf of all, and one transaction commits them together. So contended calls do not
// cost two commits each.
type bundles struct {
	mu sync.Mutex
	of map[string]*bundle // bundles that accept further calls, by accounts
}

// bundle is a set of calls to commit in one transaction.
type bundle struct {
	accounts   string
	calls      []*call
	ops, bytes int
	until      time.Time // the latest deadline of its calls: until then it may commit
}

// Bounds of a bundle.
const (
	maxBundle      = 64
	maxBundleBytes = maxBatchBytes / 4
)

// call is one multi-range call. The fields after done are set before done is closed.
type call struct {
	parts  []part
	until  time.Time // the call's deadline
	bundle *bundle

	done  chan struct{}
	out   account.Outcome
	err   error
	alone bool // as runBundled returns it
}

// join adds a call to the bundle that waits for the same accounts. If there is no bundle with room,
// the call begins one: join then returns first, and the caller must start that bundle.
func (g *bundles) join(c *call) (first bool) {
	ops, bytes := 0, 0
	for i := range c.parts {
		ops += len(c.parts[i].request.Ops)
		bytes += sizeOf(&account.Command{Apply: &c.parts[i].request})
	}
	key := accountsOf(c.parts)
	g.mu.Lock()
	defer g.mu.Unlock()
	with := g.of[key]
	if with == nil || len(with.calls) >= maxBundle || with.ops+ops > account.MaxOps || with.bytes+bytes > maxBundleBytes || with.has(&c.parts[0].request) || !with.remembers(c) {
		with = &bundle{accounts: key}
		if g.of == nil {
			g.of = map[string]*bundle{}
		}
		g.of[key] = with
		first = true
	}
	with.calls, with.ops, with.bytes, with.until = append(with.calls, c), with.ops+ops, with.bytes+bytes, latest(with.until, c.until)
	c.bundle = with
	return first
}

// has reports whether the bundle already contains a call with the request's ID and caller.
func (g *bundle) has(r *account.Request) bool {
	return r.ID != "" && slices.ContainsFunc(g.calls, func(c *call) bool {
		other := &c.parts[0].request
		return other.ID == r.ID && other.By == r.By
	})
}

// remembers reports whether the IDs of all calls, with that of c, are remembered for at least twice as long as the bundle
// may take. A caller that leaves does not stop the bundle, and may repeat its call elsewhere: a range must not forget the
// repetition before the bundle has ended, or it would apply both. Twice, since the call's own deadline has prolonged
// the time (see remembered), which that of the repetition need not.
func (g *bundle) remembers(c *call) bool {
	least := 2 * (time.Until(latest(g.until, c.until)) + afterCall)
	return !slices.ContainsFunc(append(slices.Clip(g.calls), c), func(c *call) bool {
		r := &c.parts[0].request
		return r.ID != "" && r.TTL < least
	})
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// accountsOf returns a key for the accounts of all parts, regardless of their order.
func accountsOf(parts []part) string {
	var ids []account.ID
	for i := range parts {
		ids = append(ids, parts[i].accounts()...)
	}
	slices.SortFunc(ids, account.ID.Compare)
	var name []byte
	for _, id := range slices.Compact(ids) {
		for _, atom := range []string{id.App, id.Realm, id.Identity, id.Namespace, id.Name, id.Resource} {
			name = append(binary.AppendUvarint(name, uint64(len(atom))), atom...)
		}
	}
	return string(name)
}

// start closes the bundle that c began to further calls and returns its calls.
func (g *bundles) start(c *call) []*call {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.of[c.bundle.accounts] == c.bundle {
		delete(g.of, c.bundle.accounts)
	}
	calls := c.bundle.calls
	c.bundle.calls = nil
	return calls
}

// leave removes a call from its bundle. It returns false if the bundle has already started.
func (g *bundles) leave(c *call) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := slices.Index(c.bundle.calls, c)
	if at < 0 {
		return false
	}
	c.bundle.calls = slices.Delete(c.bundle.calls, at, at+1)
	return true
}

// await waits until the call's bundle is done or ctx ends.
func (g *bundles) await(ctx context.Context, c *call) (out account.Outcome, alone bool, err error) {
	select {
	case <-c.done:
		return c.out, c.alone, c.err
	case <-ctx.Done():
	}
	if g.leave(c) {
		return out, false, callerError(fmt.Errorf("%w: %w", errNotLeader, context.Cause(ctx)), false)
	}
	return out, false, callerError(fmt.Errorf("%w: %w", errUnknown, context.Cause(ctx)), true)
}

// runBundled carries a call out together with the calls that wait for the same accounts. It returns
// alone if nothing was applied and the caller must carry the call out by itself.
func (s *Service) runBundled(ctx context.Context, parts []part) (out account.Outcome, alone bool, err error) {
	until, _ := ctx.Deadline()
	c := &call{parts: parts, until: until, done: make(chan struct{})}
	if !s.bundles.join(c) {
		return s.bundles.await(ctx, c)
	}
	leave := s.lines.enter(ctx, parts)
	w := s.startAttempts(ctx, parts)
	calls := s.bundles.start(c)
	if len(calls) > 1 && ctx.Err() == nil {
		together := func() {
			defer leave()
			s.commitBundle(w, calls)
		}
		if s.spawn(together) {
			return s.bundles.await(ctx, c)
		}
	}
	for _, other := range calls[1:] { // this call is about to fail; the others need not
		other.alone = true
		close(other.done)
	}
	defer leave()
	out, err = s.runAttempts(ctx, w, parts)
	return out, false, err
}

// commitBundle commits calls as one transaction. If that cannot commit, it leaves each call to be
// carried out alone, and for hotLimit this node joins no calls on these accounts.
func (s *Service) commitBundle(w *attempts, calls []*call) {
	until := calls[0].until
	for _, c := range calls[1:] {
		until = latest(until, c.until)
	}
	ctx, cancel := context.WithDeadline(s.ctx, until)
	defer cancel()
	parts := mergeParts(calls)
	out, err := s.runAttempts(ctx, w, parts)
	alone := err == nil && out.Code != account.Done
	if alone {
		s.apart.note(parts)
	}
	if u := (*UnavailableError)(nil); errors.As(err, &u) && u.Overloaded && !u.Unknown && len(calls) > 1 {
		alone, err = true, nil // the bundle counts for the owner of its first call: the others may have room
	}
	for k, c := range calls {
		c.err, c.alone = err, alone
		if err == nil && !alone {
			c.out = account.Outcome{Code: account.Done, Results: resultsOf(parts, k), At: out.At}
		}
		close(c.done)
	}
}

// mergeParts merges the parts of all calls, which span the same ranges.
func mergeParts(calls []*call) []part {
	parts := slices.Clone(calls[0].parts)
	for i := range parts {
		for _, c := range calls[1:] {
			at := slices.IndexFunc(c.parts, func(p part) bool { return p.id == parts[i].id })
			parts[i].more = append(parts[i].more, c.parts[at].request)
		}
	}
	return parts
}

// resultsOf returns the results of one of the calls in the parts.
func resultsOf(parts []part, call int) []account.Result {
	single := slices.Clone(parts)
	for i := range single {
		p := &single[i]
		for k := range call {
			p.out.Results = p.out.Results[min(len(p.at(k).Ops), len(p.out.Results)):]
		}
		p.request = *parts[i].at(call)
	}
	return merged(single)
}
