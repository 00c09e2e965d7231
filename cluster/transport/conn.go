package transport

import (
	"bufio"
	"errors"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/quota"
)

// conn is one connection after its handshake, dialed or accepted.
type conn struct {
	net         *Net
	nc          net.Conn
	fr          *frameReader
	peer        quota.NodeID
	lane        peerv1.Lane
	incarnation quota.Incarnation
	q           *queue

	done chan struct{} // closed by close
	once sync.Once
	err  error // why it closed; set before done is closed

	lastID  atomic.Uint64
	mu      sync.Mutex
	pending map[uint64]chan *peerv1.Frame // nil after close
}

// newConn wraps a connection whose other side sent the Hello h.
func newConn(n *Net, nc net.Conn, fr *frameReader, h *peerv1.Hello) *conn {
	tune(nc)
	return &conn{
		net: n, nc: nc, fr: fr, q: newQueue(),
		peer: quota.NodeID(h.From), lane: h.Lane, incarnation: quota.Incarnation(h.Incarnation),
		done: make(chan struct{}), pending: map[uint64]chan *peerv1.Frame{},
	}
}

// close ends the connection and fails the calls that wait on it.
func (c *conn) close(err error) {
	c.once.Do(func() {
		c.err = err
		_ = lowest(c.nc).Close() // below TLS, whose close message could block
		c.mu.Lock()
		c.pending = nil
		c.mu.Unlock()
		close(c.done)
	})
}

// send queues a frame. It sends nothing after close.
func (c *conn) send(f *peerv1.Frame, id uint64, answer bool) error {
	b, err := encodeFrame(f, id, answer)
	if err != nil {
		return err
	}
	select {
	case <-c.done:
		return ErrUnreachable
	default:
		if c.q.push(b) == 0 {
			return ErrBusy
		}
		return nil
	}
}

// answered passes an answer to the call that waits for it, and drops an answer that arrives too
// late.
func (c *conn) answered(f *peerv1.Frame) {
	c.mu.Lock()
	ch := c.pending[f.Id]
	delete(c.pending, f.Id)
	c.mu.Unlock()
	if ch != nil {
		ch <- f
	}
}

// readLoop reads frames until the connection ends.
func (c *conn) readLoop(handle func(*peerv1.Frame)) {
	for {
		f, err := c.fr.frame()
		if err != nil {
			if errors.Is(err, ErrTooLarge) || errors.Is(err, errMalformed) {
				c.net.logs.warn(c.net.log, logFrame, "peer sent an unreadable message; closing the connection", "peer", c.peer, "lane", c.lane, "err", err)
			}
			c.close(err)
			return
		}
		handle(f)
	}
}

// writeLoop writes queued frames and flushes whenever the queue is empty.
func (c *conn) writeLoop() {
	w := bufio.NewWriterSize(chunkWriter{c.nc}, readBuffer)
	var spare [][]byte
	for {
		batch := c.q.drain(spare)
		if batch == nil {
			if w.Buffered() > 0 && !c.flush(w) {
				return
			}
			select {
			case <-c.q.wake:
				runtime.Gosched() // others that are ready to queue frames share the write
				continue
			case <-c.done:
				return
			}
		}
		if !c.writeBatch(w, batch) {
			return
		}
		clear(batch)
		spare = batch
	}
}

// chunkWriter sets a deadline for each chunk instead of the whole: a frame may take long on a slow
// path, but it must make progress.
type chunkWriter struct{ net.Conn }

func (w chunkWriter) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		_ = w.SetWriteDeadline(time.Now().Add(writeLimit))
		var wrote int
		wrote, err = w.Conn.Write(b[n:min(n+writeChunk, len(b))])
		n += wrote
	}
	return n, err
}

func (c *conn) flush(w *bufio.Writer) bool {
	if err := w.Flush(); err != nil {
		c.close(err)
		return false
	}
	return true
}

func (c *conn) writeBatch(w *bufio.Writer, batch [][]byte) bool {
	for _, b := range batch {
		switch f := c.net.faultOf(c.peer, c.lane); {
		case f.Drop:
			c.q.written(len(b))
			continue
		case f.Delay > 0 && (!c.flush(w) || !c.sleep(f.Delay)):
			return false
		}
		if _, err := w.Write(b); err != nil {
			c.close(err)
			return false
		}
		c.q.written(len(b))
	}
	return true
}

func (c *conn) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.done:
		return false
	}
}
