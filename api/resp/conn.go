package resp

import (
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/quorate/quorate/api/auth"
	"github.com/quorate/quorate/internal/quota"
)

// flushAt is from how many bytes on answers are sent although more commands are
// at hand: what a pipeline costs in memory.
const flushAt = 16 << 10

// conn is one connection. It belongs to the goroutine that serves it.
type conn struct {
	*Server
	reply
	raw     net.Conn
	tls     *tls.ConnectionState
	id      int64
	in      reader
	hurried bool   // a part of a command has a deadline
	name    string // as CLIENT SETNAME says

	header   []string // the credential that AUTH gave, as a header of HTTP
	caller   *auth.Caller
	known    time.Time // when caller was looked up
	failures int       // of AUTH
	code     string    // of the answer, for metrics
	done     bool      // close when what is answered is sent

	tx      transaction
	inlined inlined
	last    quota.LimitName // that QUORATE.ALLOW named
	req     [1]quota.Request
	dec     [1]quota.Decision
}

// run answers commands, in their order, until the connection ends.
func (c *conn) run() {
	defer c.forget()
	for !c.done {
		args, err := c.in.next()
		switch {
		case err == nil:
			c.answer(args)
		case errors.Is(err, errMore):
			if !c.flush() || !c.read() {
				return
			}
			continue
		default:
			c.opts.Count(codeProtocol)
			c.fail("ERR Protocol error: " + err.Error())
			c.done = true
		}
		if len(c.out) >= flushAt && !c.flush() {
			return
		}
	}
	c.flush()
}

// read waits for bytes. It returns false when the connection is over.
func (c *conn) read() bool {
	switch partial := c.in.partial(); {
	case !partial:
		c.hurried = false
		c.deadline(idleTime)
	case !c.hurried: // what has begun has to end in its time, however many reads it takes
		c.hurried = true
		c.deadline(commandTime)
	}
	if c.stopping.Load() { // looked at behind the deadline, which would undo Shutdown's
		return false
	}
	return c.in.fill() == nil
}

// deadline bounds the reads to come. An error of it is one of the next read too.
func (c *conn) deadline(d time.Duration) { _ = c.raw.SetReadDeadline(time.Now().Add(d)) }

// flush sends what has been answered.
func (c *conn) flush() bool {
	if len(c.out) == 0 {
		return true
	}
	_ = c.raw.SetWriteDeadline(time.Now().Add(writeTime)) // as above
	_, err := c.raw.Write(c.out)
	if c.out = c.out[:0]; cap(c.out) > 2*flushAt {
		c.out = nil
	}
	return err == nil
}
