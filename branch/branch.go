package branch

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
)

// Trunk is the node's own table of keys; *aggregator.Aggregator is one.
type Trunk interface {
	// Lend lends tokens that the node holds of a key, and returns what it knows of the key.
	Lend(clock aggregator.Clock, k quota.Key, w aggregator.Wish) aggregator.Loan
	// Settle books what clients did with loans. It returns false if the limit is unknown.
	Settle(clock aggregator.Clock, k quota.Key, s aggregator.Settlement) bool
	// Recalls returns keys with loans that their leader wants back since the last call.
	Recalls() []quota.Key
}

// Errors that callers tell apart. All others say that a message changes nothing.
var (
	// ErrFull says that the node has as many clients as it may.
	ErrFull = errors.New("too many clients; attach to another node")
	// ErrUnknown says that there was no such attachment here.
	ErrUnknown = errors.New("unknown attachment")
	// ErrForgotten says that the attachment was here, and waited too long to be settled:
	// as if its node had died.
	ErrForgotten = errors.New("the attachment has been forgotten")
)

// Branch is the book of a node's clients. One goroutine at a time uses it.
type Branch struct {
	cfg   Config
	trunk Trunk
	now   quota.Time
	clock aggregator.Clock // returns now

	clients   map[quota.NodeID]*client // those whose stream lives
	parted    map[attachment]*client   // those whose stream broke, until they are settled
	settled   memory[attachment]       // those that are
	forgotten memory[attachment]       // those that waited too long for that
	inherited memory[inherited]        // parts of last reports that are booked
	keys      map[quota.Key]*account
	holders   int            // of all clients
	owned     map[string]int // of those of each owner

	waiting []*account // keys with clients that wait for tokens
	pushed  []quota.Grant
}

// attachment is one stream of a process to a node, as the process numbers them.
type attachment struct {
	id   quota.NodeID
	inc  quota.Incarnation
	term quota.Term
}

func (a attachment) String() string {
	return fmt.Sprintf("attachment %d of %s, incarnation %d", a.term, a.id, a.inc)
}

// older reports whether the attachment is of an earlier life, or an earlier one.
func (a attachment) older(b attachment) bool {
	return a.inc < b.inc || a.inc == b.inc && a.term < b.term
}

// client is one attachment.
type client struct {
	attachment
	owner string
	seq   quota.Seq
	keys  map[quota.Key]*holder
	since quota.Time // when its stream broke; 0 while it lives
}

// New returns a branch without clients.
func New(cfg Config, t Trunk) *Branch {
	b := &Branch{
		cfg: cfg.WithDefaults(), trunk: t,
		clients: map[quota.NodeID]*client{}, parted: map[attachment]*client{}, keys: map[quota.Key]*account{}, owned: map[string]int{},
	}
	b.settled.init()
	b.forgotten.init()
	b.inherited.init()
	b.clock = func() quota.Time { return b.now }
	return b
}

// Len returns how many clients are attached.
func (b *Branch) Len() int { return len(b.clients) }

// Keys returns how many keys clients have open together, those of attachments that
// broke included: a key that ten of them use counts as ten.
func (b *Branch) Keys() int { return b.holders }

// Settled reports whether the attachment is known to be settled.
func (b *Branch) Settled(id quota.NodeID, inc quota.Incarnation, term quota.Term) bool {
	return b.settled.has(attachment{id, inc, term})
}

// Attach begins an attachment. An earlier one of the same process ends as if its
// stream had broken; one of an earlier process is over. owner is whose process it is:
// the processes of an owner share MaxKeys as one; if it is empty, each counts for itself.
// Attach returns ErrFull when there is no room, and an error for an attachment that is
// not newer.
func (b *Branch) Attach(now quota.Time, id quota.NodeID, owner string, inc quota.Incarnation, term quota.Term) error {
	b.now = now
	at := attachment{id, inc, term}
	was := b.clients[id]
	switch {
	case term == 0:
		return errors.New("attachment: 0; must be 1 or more")
	case was != nil && !was.older(at) || b.parted[at] != nil || b.settled.has(at):
		return fmt.Errorf("%v: is not newer than what is known", at)
	case was == nil && len(b.clients) >= b.cfg.MaxClients:
		return ErrFull
	case was != nil:
		b.part(was)
	}
	if owner == "" {
		owner = string(id)
	}
	b.clients[id] = &client{attachment: at, owner: owner, keys: map[quota.Key]*holder{}}
	return nil
}

// Detach says that the stream of a process broke: what it was lent stays lent
// until its last report comes (Final), or its lease ends.
func (b *Branch) Detach(now quota.Time, id quota.NodeID, inc quota.Incarnation, term quota.Term) {
	b.now = now
	if c := b.clients[id]; c != nil && c.attachment == (attachment{id, inc, term}) {
		b.part(c)
	}
}

// part keeps the attachment aside until it is settled. Where too many wait for
// that, what it was lent is lost now.
func (b *Branch) part(c *client) {
	delete(b.clients, c.id)
	if len(b.parted) >= b.cfg.MaxClients {
		b.end(c)
		return
	}
	c.since = b.now
	b.parted[c.attachment] = c
	for _, h := range c.keys {
		h.quiet()
	}
}

// end forgets an attachment, with what it was lent. Should its last report come all
// the same, it is booked as that of an attachment to a dead node.
func (b *Branch) end(c *client) {
	b.forgotten.add(b.now, c.attachment)
	for _, h := range c.keys {
		b.lose(h)
		b.drop(h)
	}
	delete(b.parted, c.attachment)
}

// remember is how long a broken attachment waits for its last report.
const remember = time.Minute

// Sweep does what time alone asks for: it takes back what was lent when its lease
// is over, and forgets attachments that broke a minute ago. Call it about once a
// second.
func (b *Branch) Sweep(now quota.Time) {
	b.now = now
	for _, c := range b.parted {
		b.sweep(c)
		if now.Sub(c.since) >= remember {
			b.end(c)
		}
	}
	for _, c := range b.clients {
		b.sweep(c)
	}
	b.settled.forget(now)
	b.forgotten.forget(now)
	b.inherited.forget(now)
}

// sweep takes back what has outlasted its lease.
func (b *Branch) sweep(c *client) {
	for _, h := range c.keys {
		if h.lent > 0 && b.now >= h.lease.Add(leaseSlack) {
			b.lose(h)
		}
		if h.closed && c.since == 0 && b.now.Sub(h.reported) >= closedFor {
			b.drop(h)
			continue
		}
		h.a.fade(b.now, h, b.cfg.Sync)
	}
}

// closedFor is how long a key that a client has let go of is remembered: longer than
// a report is repeated on a stream that lives.
const closedFor = 5 * time.Second

// leaseSlack is how much later than the node a client may see its lease end, and
// how long its last words take.
const leaseSlack = 250 * time.Millisecond
