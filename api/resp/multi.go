package resp

import (
	"fmt"

	"github.com/quorate/quorate/internal/fairshare"
	"github.com/quorate/quorate/internal/rbac"
)

// Bounds of the queued commands in memory between MULTI and EXEC, in bytes on the wire. maxQueued
// holds about 8000 calls of CL.THROTTLE.
const (
	maxQueued      = 512 << 10        // per connection
	maxQueuedAll   = 64 << 20         // all connections of a server
	maxQueuedOfOne = maxQueuedAll / 4 // all connections of one caller
)

// transaction holds the commands of a connection since MULTI.
type transaction struct {
	open    bool
	owner   string // the caller that the queue is charged to
	spoiled bool   // a command was refused: EXEC runs nothing
	queued  []byte // the commands, in the form that parse reads
	count   int
}

// multi answers MULTI. With authentication on, only callers with the permission check in some
// namespace can make the server queue commands.
func (c *conn) multi([][]byte) {
	if c.tx.open {
		c.invalid("ERR MULTI calls can not be nested")
		return
	}
	if c.opts.Guard != nil {
		if !c.identified("MULTI") {
			return
		}
		if !c.opts.Guard.Somewhere(c.caller, rbac.Check) {
			err := fmt.Errorf("MULTI: %s may check no limit; identify the caller with AUTH, HELLO or a client certificate", c.caller.Identity)
			c.failed(codeDenied, "NOAUTH %v", err)
			c.opts.Denied("MULTI", c.caller, c.address(), err)
			return
		}
	}
	c.tx.open, c.tx.owner = true, c.shareOwner()
	c.simple("OK")
}

// queue stores a command for EXEC.
func (c *conn) queue(args [][]byte) {
	if c.tx.spoiled {
		c.simple("QUEUED")
		return
	}
	before := len(c.tx.queued)
	r := reply{out: c.tx.queued}
	r.array(len(args))
	for _, a := range args {
		r.bytes(a)
	}
	if len(r.out) > maxQueued {
		c.spoil()
		c.invalid("ERR MULTI: more than %d bytes of commands before EXEC; send fewer commands in a transaction, or none", maxQueued)
		return
	}
	switch c.queued.TryAcquire(c.tx.owner, int64(len(r.out)-before)) {
	case fairshare.Total:
		c.spoil()
		c.failed(codeUnavailable, "TRYAGAIN the transactions of all connections hold %d bytes of commands, the maximum", maxQueuedAll)
	case fairshare.Each:
		owner := c.tx.owner
		c.spoil()
		c.failed(codeUnavailable, "TRYAGAIN the transactions of %s hold %d bytes of commands, the maximum for one caller", owner, maxQueuedOfOne)
	default:
		c.tx.queued = r.out
		c.tx.count++
		c.simple("QUEUED")
	}
}

// spoil drops the queue because a command was refused. EXEC then runs nothing.
func (c *conn) spoil() {
	if c.tx.open {
		c.forget()
		c.tx = transaction{open: true, spoiled: true}
	}
}

// forget ends the transaction without running it.
func (c *conn) forget() {
	c.queued.Release(c.tx.owner, int64(len(c.tx.queued)))
	c.tx = transaction{}
}

// exec answers EXEC with an array of the queued commands' answers. They run in order, each decided
// on its own: after a refusal or an error the later ones still run.
func (c *conn) exec([][]byte) {
	t := c.tx
	switch {
	case !t.open:
		c.invalid("ERR EXEC without MULTI")
		return
	case t.spoiled:
		c.forget()
		c.invalid("EXECABORT Transaction discarded because of previous errors.")
		return
	}
	defer c.queued.Release(t.owner, int64(len(t.queued)))
	c.tx = transaction{}
	c.array(t.count)
	var scratch [8][]byte
	for rest := t.queued; len(rest) > 0; {
		args, n, _, err := parse(rest, scratch[:0])
		if err != nil { // cannot happen: queue wrote a command that parse had read
			c.opts.Logger.Error("redis port: a queued command cannot be read", "err", err)
			c.done = true
			return
		}
		rest = rest[n:]
		c.answer(args)
		if len(c.out) >= flushAt && !c.flush() {
			c.done = true
		}
		if c.done { // as after too many wrong tokens
			return
		}
	}
	c.decideChecks()
	c.code = codeOK
}

// discard answers DISCARD.
func (c *conn) discard([][]byte) {
	if !c.tx.open {
		c.invalid("ERR DISCARD without MULTI")
		return
	}
	c.forget()
	c.simple("OK")
}

// watch answers WATCH key [key ...]. It has no effect: this server has no values that could change
// before EXEC.
func (c *conn) watch([][]byte) {
	if c.tx.open {
		c.invalid("ERR WATCH inside MULTI is not allowed")
		return
	}
	c.simple("OK")
}

func (c *conn) unwatch([][]byte) { c.simple("OK") }
