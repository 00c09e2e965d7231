package clientledger

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/fairshare"
	"github.com/quorate/quorate/internal/quota"
)

// Parent is the node's own table of keys; *aggregator.Aggregator implements it.
type Parent interface {
	// Allocate allocates tokens that the node holds of a key, and returns the node's state of the
	// key.
	Allocate(clock aggregator.Clock, k quota.Key, w aggregator.AllocationRequest) aggregator.Allocation
	// Settle books what clients did with allocations. It returns false if the limit is unknown.
	Settle(clock aggregator.Clock, k quota.Key, s aggregator.Settlement) bool
	// Recalls returns keys with allocations that their leader has recalled since the last call.
	Recalls() []quota.Key
}

// Errors that callers distinguish. All others mean that a message changes nothing.
var (
	// ErrFull means that the node has the maximum number of clients.
	ErrFull = errors.New("too many clients; attach to another node")
	// ErrUnknown means that the session is unknown here.
	ErrUnknown = errors.New("unknown attachment")
	// ErrForgotten means that the session was here, and waited too long to be settled. It is
	// handled as if its node had died.
	ErrForgotten = errors.New("the attachment has been forgotten")
)

// Ledger is the state of a node's clients. Not safe for concurrent use.
type Ledger struct {
	cfg    Config
	parent Parent
	now    quota.Time
	clock  aggregator.Clock // returns now

	clients      map[quota.NodeID]*client // sessions whose stream lives
	broken       map[session]*client      // sessions whose stream broke, until they are settled
	settled      memory[session]          // settled sessions
	forgotten    memory[session]          // sessions that waited too long to be settled
	inherited    memory[inherited]        // booked parts of last reports
	keys         map[quota.Key]*bucket
	places       *fairshare.Pool // allocations of all clients, by owner
	brokenPlaces *fairshare.Pool // places for broken sessions, by owner

	waiting []*bucket // keys with clients that wait for tokens
	pushed  []quota.Grant
}

// session identifies one stream of a process to a node, as the process numbers them.
type session struct {
	id   quota.NodeID
	inc  quota.Incarnation
	term quota.Term
}

func (a session) String() string {
	return fmt.Sprintf("attachment %d of %s, incarnation %d", a.term, a.id, a.inc)
}

// older reports whether the session is of an earlier incarnation, or an earlier one of the same.
func (a session) older(b session) bool {
	return a.inc < b.inc || a.inc == b.inc && a.term < b.term
}

// client is the state of one session.
type client struct {
	session
	owner string
	seq   quota.Seq
	keys  map[quota.Key]*allocation
	since quota.Time // when its stream broke; 0 while it lives
}

// New returns a client ledger without clients.
func New(cfg Config, t Parent) *Ledger {
	cfg = cfg.WithDefaults()
	l := &Ledger{
		cfg: cfg, parent: t, places: fairshare.NewPerFree(int64(cfg.MaxKeys)),
		clients: map[quota.NodeID]*client{}, broken: map[session]*client{}, keys: map[quota.Key]*bucket{},
		brokenPlaces: fairshare.NewPerFree(int64(cfg.MaxClients)),
	}
	l.settled.init()
	l.forgotten.init()
	l.inherited.init()
	l.clock = func() quota.Time { return l.now }
	return l
}

// Len returns the number of attached clients.
func (l *Ledger) Len() int { return len(l.clients) }

// Keys returns the number of open keys of all clients, including broken sessions: a key that ten of
// them use counts as ten.
func (l *Ledger) Keys() int { return int(l.places.Held()) }

// Settled reports whether the session is known to be settled.
func (l *Ledger) Settled(id quota.NodeID, inc quota.Incarnation, term quota.Term) bool {
	return l.settled.has(session{id, inc, term})
}

// Attach begins a session. An earlier session of the same process ends as if its stream had broken;
// one of an earlier process is over. The processes of one owner share MaxKeys as one; with an empty
// owner, each counts for itself. Attach returns ErrFull when there is no room, and an error for a
// session that is not newer.
func (l *Ledger) Attach(now quota.Time, id quota.NodeID, owner string, inc quota.Incarnation, term quota.Term) error {
	l.now = now
	at := session{id, inc, term}
	was := l.clients[id]
	switch {
	case term == 0:
		return errors.New("attachment: 0; must be 1 or more")
	case was != nil && !was.older(at) || l.broken[at] != nil || l.settled.has(at):
		return fmt.Errorf("%v: is not newer than what is known", at)
	case was == nil && len(l.clients) >= l.cfg.MaxClients:
		return ErrFull
	case was != nil:
		l.part(was)
	}
	if owner == "" {
		owner = string(id)
	}
	l.clients[id] = &client{session: at, owner: owner, keys: map[quota.Key]*allocation{}}
	return nil
}

// Detach notifies the ledger that the stream of a process broke. Its tokens stay allocated until
// its last report arrives (Final), or its lease ends.
func (l *Ledger) Detach(now quota.Time, id quota.NodeID, inc quota.Incarnation, term quota.Term) {
	l.now = now
	if c := l.clients[id]; c != nil && c.session == (session{id, inc, term}) {
		l.part(c)
	}
}

// part keeps a broken session until it is settled. If too many of all owners or of its own wait for that, its
// tokens are lost now.
func (l *Ledger) part(c *client) {
	delete(l.clients, c.id)
	if l.brokenPlaces.TryAcquire(c.owner, 1) != fairshare.NotFull {
		l.end(c)
		return
	}
	c.since = l.now
	l.broken[c.session] = c
	for _, al := range c.keys {
		al.quiet()
	}
}

// end forgets a session and its tokens. If its last report arrives nevertheless, it is booked as
// that of a session to a dead node.
func (l *Ledger) end(c *client) {
	l.forgotten.add(l.now, c.session)
	for _, al := range c.keys {
		l.expire(al)
		l.drop(al)
	}
	l.leave(c)
}

// leave frees the place of a broken session, if it has one.
func (l *Ledger) leave(c *client) {
	if l.broken[c.session] != nil {
		delete(l.broken, c.session)
		l.brokenPlaces.Release(c.owner, 1)
	}
}

// remember is how long a broken session waits for its last report.
const remember = time.Minute

// Sweep handles what is due by time alone: it takes back tokens whose lease has ended, and forgets
// sessions that broke a minute ago. Call it about once a second.
func (l *Ledger) Sweep(now quota.Time) {
	l.now = now
	for _, c := range l.broken {
		l.sweep(c)
		if now.Sub(c.since) >= remember {
			l.end(c)
		}
	}
	for _, c := range l.clients {
		l.sweep(c)
	}
	l.settled.forget(now)
	l.forgotten.forget(now)
	l.inherited.forget(now)
}

// sweep takes back expired tokens, and drops keys that were closed some time ago.
func (l *Ledger) sweep(c *client) {
	for _, al := range c.keys {
		if al.allocated > 0 && l.now >= al.lease.Add(leaseSlack) {
			l.expire(al)
		}
		if al.closed && c.since == 0 && l.now.Sub(al.reported) >= closedFor {
			l.drop(al)
			continue
		}
		al.bucket.fade(l.now, al, l.cfg.Sync)
	}
}

// closedFor is how long a closed key is remembered: longer than a report is repeated on a stream
// that lives.
const closedFor = 5 * time.Second

// leaseSlack bounds the time by which a client may see its lease end later than the node, plus the time that
// its last report takes.
const leaseSlack = 250 * time.Millisecond
