package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/quota"
)

// Protocol is the version spoken, checked in every handshake.
const Protocol = 1

// MaxFrame bounds one frame in bytes. Larger messages are a fault of the
// sender and are refused there.
const MaxFrame = 16 << 20

// Bounds that protect a node from its peers and from unauthenticated connections.
const (
	maxHello           = 16 << 10               // bytes of the first frame
	maxQueueBytes      = 32 << 20               // waiting on one connection
	maxQueueFrames     = 16 << 10               // waiting on one connection
	maxUnauthenticated = 256                    // accepted connections before their handshake
	maxAdmitting       = 2 * maxUnauthenticated // of those and the ones just evicted: their goroutines
	maxSnapshots       = 8                      // accepted snapshot connections
	handshakeLimit     = 5 * time.Second        // from accept or dial to the end of the handshake, TLS included
	hearLimit          = 2 * time.Second        // from accept to the first byte
	lingerLimit        = time.Second / 4        // for a fault of TLS to reach the other side
	writeLimit         = 10 * time.Second       // one flush: a peer that reads nothing is gone
	minBackoff         = 10 * time.Millisecond
	maxBackoff         = time.Second
	settledAfter       = time.Second // a connection that lived so long resets the backoff
	maxRefusalTexts    = 16          // distinct refusals remembered per link
)

// Errors of Send, Call and Snapshot.
var (
	// ErrUnreachable says that there is no connection to the peer now. The
	// frame was not sent; retry after Up.
	ErrUnreachable = errors.New("peer is not connected")
	// ErrBusy says that the queue to the peer is full. The frame was not sent.
	ErrBusy = errors.New("queue to peer is full")
	// ErrLost says that the connection ended before the answer came. The peer
	// may or may not have acted on the call.
	ErrLost = errors.New("connection lost before the answer")
	// ErrTooLarge says that a frame exceeds MaxFrame.
	ErrTooLarge = errors.New("frame too large")
	// ErrClosed says that Close was called.
	ErrClosed = errors.New("transport is closed")
)

// RemoteError is the fault that a peer answered with. It does not say that the peer did
// nothing: an answer that cannot be encoded becomes one, too.
type RemoteError struct {
	Peer quota.NodeID
	Text string
}

// Error returns the peer's words and its name.
func (e *RemoteError) Error() string { return fmt.Sprintf("%s answered: %s", e.Peer, e.Text) }

// Event is a change in what is known of a peer.
type Event int

// The events.
const (
	Up      Event = iota + 1 // both connections stand
	Down                     // a connection is lost; the peer may live
	Refused                  // and new ones are refused where it was: it has probably ended, unless what refuses is before it
	Dead                     // all incarnations before [Net.EndedBefore] are definitely over
	Removed                  // it is no peer any more; whether its process has ended is another question
)

// String returns the word used in logs.
func (e Event) String() string {
	switch e {
	case Up:
		return "up"
	case Down:
		return "down"
	case Refused:
		return "refusing connections"
	case Dead:
		return "dead"
	case Removed:
		return "removed"
	}
	return "unknown"
}

// Config is what a Net needs to know.
type Config struct {
	Cluster     string            // name; nodes of another cluster are refused
	Self        quota.NodeID      // this node
	Incarnation quota.Incarnation // this incarnation of the process
	Ranges      uint32            // number of ranges; must be equal everywhere

	// Level is the feature level of this node: what it can do.
	Level uint32
	// Required returns the level of the cluster: who can do less is refused. It
	// is asked in every handshake, from any goroutine, and must not block; nil
	// is 0. Connections that stand stay when it rises.
	Required func() uint32

	// First is the first incarnation of a process with this node's data, which a Hello
	// says; 0 if that is not known.
	First quota.Incarnation
	// Returns says what is wrong with a peer that comes with data of that first
	// incarnation; "" if nothing is. It is asked as Required is; nil takes everybody.
	Returns func(id quota.NodeID, first quota.Incarnation) string

	// Packed is the newest packed form of reports and grants that Handle takes, which a
	// Hello says; 0 is none.
	Packed uint32

	// Listener accepts peers; it is listening already and is closed by Close.
	Listener net.Listener
	// Peers are the other nodes and where they listen, to begin with; at most
	// [MaxPeers]. SetPeers changes them.
	Peers map[quota.NodeID]string

	// Handle is called for every frame that is no answer, on the goroutine
	// that reads the connection: it must not block. answer sends the answer;
	// it may be called later, from any goroutine, and only the first call
	// counts. It does nothing when the sender expects no answer.
	Handle func(from quota.NodeID, f *peerv1.Frame, answer func(*peerv1.Frame))
	// HandleSnapshot is called for every snapshot, on a goroutine of its own.
	// body ends after the bytes that the sender announced.
	HandleSnapshot func(from quota.NodeID, header *peerv1.Frame, body io.Reader) *peerv1.Frame
	// OnPeer is told of every event, in order, one at a time.
	OnPeer func(id quota.NodeID, e Event)

	// TLS is nil for connections in the clear: then whoever reaches the port may
	// say to be a peer.
	TLS *TLS
	// Dial connects to a peer, below TLS; a net.Dialer when nil.
	Dial   func(ctx context.Context, addr string) (net.Conn, error)
	Logger *slog.Logger
}

func (c *Config) validate() error {
	var errs []error
	need := func(ok bool, text string) {
		if !ok {
			errs = append(errs, errors.New(text))
		}
	}
	need(c.Cluster != "", "cluster: is empty")
	need(c.Self != "", "self: is empty")
	need(c.Ranges > 0, "ranges: is 0")
	need(c.Listener != nil, "listener: is nil")
	return errors.Join(append(errs, checkPeers(c.Self, c.Peers), c.TLS.validate())...)
}

func (c *Config) fill() {
	if c.Returns == nil {
		c.Returns = func(quota.NodeID, quota.Incarnation) string { return "" }
	}
	if c.Handle == nil {
		c.Handle = func(_ quota.NodeID, _ *peerv1.Frame, answer func(*peerv1.Frame)) {
			answer(&peerv1.Frame{Error: "this node handles no frames"})
		}
	}
	if c.HandleSnapshot == nil {
		c.HandleSnapshot = func(quota.NodeID, *peerv1.Frame, io.Reader) *peerv1.Frame {
			return &peerv1.Frame{Error: "this node takes no snapshots"}
		}
	}
	if c.Required == nil {
		c.Required = func() uint32 { return 0 }
	}
	if c.OnPeer == nil {
		c.OnPeer = func(quota.NodeID, Event) {}
	}
	if c.Dial == nil {
		d := &net.Dialer{Timeout: handshakeLimit}
		c.Dial = func(ctx context.Context, addr string) (net.Conn, error) { return d.DialContext(ctx, "tcp", addr) }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}
