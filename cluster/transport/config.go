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

// Protocol is the protocol version, checked in every handshake.
const Protocol = 1

// MaxFrame is the maximum size of one frame in bytes. Larger messages are an error of the sender,
// which rejects them itself.
const MaxFrame = 16 << 20

// Bounds that protect a node from its peers and from unauthenticated connections.
const (
	maxHello           = 16 << 10               // maximum size of the first frame in bytes
	maxQueueBytes      = 32 << 20               // waiting on one connection
	maxQueueFrames     = 16 << 10               // waiting on one connection
	maxUnauthenticated = 256                    // accepted connections before their handshake
	maxAdmitting       = 2 * maxUnauthenticated // those and the ones just evicted: bounds their goroutines
	maxSnapshots       = 8                      // accepted snapshot connections
	handshakeLimit     = 5 * time.Second        // from accept or dial to the end of the handshake, TLS included
	hearLimit          = 2 * time.Second        // from accept to the first byte
	lingerLimit        = time.Second / 4        // time for a TLS error to reach the other side
	writeLimit         = 10 * time.Second       // for each writeChunk: a peer that takes longer to read is gone
	writeChunk         = 64 << 10
	minBackoff         = 10 * time.Millisecond
	maxBackoff         = time.Second
	settledAfter       = time.Second // a connection that lived this long resets the backoff
	maxRefusalTexts    = 16          // distinct refusals logged per link
)

// Errors of Send, Call and Snapshot.
var (
	// ErrUnreachable means that the peer is not connected now. The frame was not sent; retry
	// after Up.
	ErrUnreachable = errors.New("peer is not connected")
	// ErrBusy means that the queue to the peer is full. The frame was not sent.
	ErrBusy = errors.New("queue to peer is full")
	// ErrLost means that the connection ended before the answer arrived. The peer may or may not
	// have acted on the call.
	ErrLost = errors.New("connection lost before the answer")
	// ErrTooLarge means that a frame exceeds MaxFrame.
	ErrTooLarge = errors.New("frame too large")
	// ErrClosed means that Close was called.
	ErrClosed = errors.New("transport is closed")
)

// RemoteError is an error that a peer answered with. It does not prove that the peer did nothing:
// the peer also answers with an error when it cannot encode its real answer.
type RemoteError struct {
	Peer quota.NodeID
	Text string
}

// Error returns the peer's name and its error text.
func (e *RemoteError) Error() string { return fmt.Sprintf("%s answered: %s", e.Peer, e.Text) }

// Event is a change in the known state of a peer.
type Event int

// The events.
const (
	Up      Event = iota + 1 // both connections are established
	Down                     // a connection is lost; the peer may be alive
	Refused                  // in addition, its address refuses new connections: it has probably ended, unless something in front of it refuses
	Dead                     // all incarnations before [Net.EndedBefore] have certainly ended
	Removed                  // it is no longer a peer; its process may or may not have ended
)

// String returns the text used in logs.
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

// Config configures a Net.
type Config struct {
	Cluster     string            // name; nodes of other clusters are refused
	Self        quota.NodeID      // this node
	Incarnation quota.Incarnation // this incarnation of the process
	Ranges      uint32            // number of ranges; must be equal everywhere

	// Level is the feature level of this node.
	Level uint32
	// Required returns the feature level of the cluster; nodes below it are refused. It is called
	// in every handshake, from any goroutine, and must not block. Nil means 0. Established
	// connections stay when the level rises.
	Required func() uint32

	// First is the first incarnation of a process with this node's data, as sent in its Hello; 0
	// if unknown.
	First quota.Incarnation
	// Returns returns what is wrong with a peer whose data has that first incarnation, or "". It
	// is called like Required. Nil accepts every peer.
	Returns func(id quota.NodeID, first quota.Incarnation) string

	// Packed is the newest packed form of reports and grants that Handle reads, as sent in the
	// Hello; 0 means none.
	Packed uint32

	// Listener accepts peers. It must be listening already; Close closes it.
	Listener net.Listener
	// Peers are the initial other nodes and the addresses where they listen; at most [MaxPeers].
	// SetPeers changes them.
	Peers map[quota.NodeID]string

	// Handle is called for every frame that is not an answer, on the goroutine that reads the
	// connection, so it must not block. answer sends the answer; it may be called later, from any
	// goroutine, and only the first call counts. It does nothing if the sender expects no answer.
	Handle func(from quota.NodeID, f *peerv1.Frame, answer func(*peerv1.Frame))
	// HandleSnapshot is called for every snapshot, on a goroutine of its own. body ends after the
	// number of bytes that the sender announced.
	HandleSnapshot func(from quota.NodeID, header *peerv1.Frame, body io.Reader) *peerv1.Frame
	// OnPeer is called with every event, in order, one at a time.
	OnPeer func(id quota.NodeID, e Event)

	// TLS secures the connections. If it is nil they are in the clear, and anybody who reaches
	// the port can claim to be a peer.
	TLS *TLS
	// Dial connects to a peer, below TLS. Nil means a net.Dialer.
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
