package resp

import (
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/quorate/quorate/api/auth"
	"github.com/quorate/quorate/internal/quota"
)

// flushAt is the size of buffered answers, in bytes, at which they are sent even if more commands
// wait. It bounds the memory of a pipeline.
const flushAt = 16 << 10

// conn is one connection. Only the goroutine that serves it uses it.
type conn struct {
	*Server
	reply
	raw     net.Conn
	tls     *tls.ConnectionState
	id      int64
	in      reader
	hurried bool   // a partial command has a deadline
	name    string // set by CLIENT SETNAME

	header   []string // the credential of AUTH, as an HTTP header
	caller   *auth.Caller
	known    time.Time // when caller was looked up
	failures int       // of AUTH
	owner    owner     // see shareOwner
	code     string    // of the answer, for metrics
	done     bool      // close once the answers are sent

	tx      transaction
	inlined inlined
	last    quota.LimitName // last limit of QUORATE.ALLOW
	missed  miss
	checks  *pipeline // checks that have not been decided yet, or nil
}

// run answers commands in order until the connection ends. Checks that arrive together are decided together.
func (c *conn) run() {
	defer c.forget()
	for !c.done {
		args, err := c.in.next()
		switch {
		case err == nil:
			c.hurried = false // what follows is another command
			c.answer(args)
		case errors.Is(err, errMore):
			if c.decideChecks(); !c.flush() || !c.read() {
				return
			}
			continue
		default:
			c.decideChecks()
			c.opts.Count(codeProtocol)
			c.fail("ERR Protocol error: " + err.Error())
			c.done = true
		}
		if len(c.out) >= flushAt && !c.flush() {
			return
		}
	}
	c.decideChecks()
	c.flush()
}

// read waits for bytes. It returns false when the connection is over.
func (c *conn) read() bool {
	switch partial := c.in.partial(); {
	case !partial:
		c.hurried = false
		c.deadline(idleTime)
	case !c.hurried: // one deadline for the whole command, however many reads it takes
		c.hurried = true
		c.deadline(commandTime)
	}
	if c.stopping.Load() { // checked after setting the deadline, which would undo Shutdown's
		return false
	}
	return c.in.fill() == nil
}

// deadline sets the deadline of the next reads. If that fails, the next read fails too.
func (c *conn) deadline(d time.Duration) { _ = c.raw.SetReadDeadline(time.Now().Add(d)) }

// flush sends the buffered answers.
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
