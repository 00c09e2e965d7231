package transport

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/quota"
)

// readBuffer is the size in bytes of a connection's read buffer, and of its write buffer: enough
// for a few hundred heartbeats.
const readBuffer = 32 << 10

// refusedError is a definite refusal: retrying soon is useless.
type refusedError struct{ text string }

func (e *refusedError) Error() string { return "refused: " + e.text }

// unknownSender is the prefix of the refusal sent to a node that is not in the peer set.
const unknownSender = "sender: "

// UnknownSender reports whether a refusal, as [Net.Refusal] returns it, means that the peer does
// not know this node.
func UnknownSender(refusal string) bool { return strings.HasPrefix(refusal, unknownSender) }

// logLevel returns a level below Error for a node that is not known: that happens briefly
// whenever a node joins.
func (e *refusedError) logLevel() slog.Level {
	if strings.HasPrefix(e.text, unknownSender) {
		return slog.LevelWarn
	}
	return slog.LevelError
}

// hello returns this side's Hello.
func (n *Net) hello(to quota.NodeID, lane peerv1.Lane) *peerv1.Hello {
	return &peerv1.Hello{
		Protocol: Protocol, Cluster: n.cfg.Cluster, From: string(n.cfg.Self), To: string(to),
		Incarnation: uint64(n.cfg.Incarnation), Lane: lane, Ranges: n.cfg.Ranges,
		Level: n.cfg.Level, FirstIncarnation: uint64(n.cfg.First),
		Packed: n.cfg.Packed,
	}
}

// dialHandshake runs the dialing side of the handshake.
func (n *Net) dialHandshake(ctx context.Context, nc net.Conn, to quota.NodeID, lane peerv1.Lane) (*conn, error) {
	_ = nc.SetDeadline(time.Now().Add(handshakeLimit))
	sh, err := n.cfg.TLS.dial(ctx, nc, to)
	if err != nil {
		return nil, err
	}
	if err := sh.belongsTo(to, "this side dialed"); err != nil {
		return nil, &refusedError{"by this side: " + err.Error()}
	}
	if err := writeMessage(sh, n.hello(to, lane)); err != nil {
		return nil, fmt.Errorf("send hello: %w", err)
	}
	fr := &frameReader{r: bufio.NewReaderSize(sh, readBuffer)}
	answer, err := readHello(fr)
	if n.cfg.TLS != nil && isAlert(err) {
		return nil, n.cfg.TLS.fault(err)
	}
	if err != nil {
		return nil, fmt.Errorf("read answer to hello: %w", err)
	}
	if answer.Refused != "" {
		return nil, &refusedError{cut(answer.Refused, maxSentence)}
	}
	if text := cmp.Or(n.mismatch(answer), n.outdated(answer)); text != "" {
		return nil, &refusedError{"by this side: " + text}
	}
	if answer.From != string(to) {
		return nil, &refusedError{fmt.Sprintf("by this side: dialed node %q but %q answered", to, answer.From)}
	}
	_ = nc.SetDeadline(time.Time{})
	n.noteHello(answer)
	return newConn(n, sh.Conn, fr, answer), nil
}

// acceptHandshake runs the accepting side of the handshake. It does not answer garbage; it
// answers a Hello that does not fit with the reason.
func (n *Net) acceptHandshake(s *unauthConn) (*conn, error) {
	sh, err := n.cfg.TLS.accept(n.ctx, s)
	if err != nil {
		return nil, err
	}
	fr := &frameReader{r: bufio.NewReaderSize(sh, readBuffer)}
	h, err := readHello(fr)
	if err != nil {
		return nil, fmt.Errorf("read hello: %w", err)
	}
	answer := n.hello(quota.NodeID(h.From), h.Lane)
	if err := sh.belongsTo(quota.NodeID(h.From), "the hello says"); err != nil {
		answer.Refused = strings.ToValidUTF8(cut(err.Error(), maxSentence), "?")
	} else if answer.Refused = n.mismatch(h); answer.Refused == "" {
		answer.Refused = cmp.Or(n.outdated(h), n.duplicate(h))
	}
	if err := writeMessage(sh, answer); err != nil {
		return nil, fmt.Errorf("answer hello: %w", err)
	}
	if answer.Refused != "" {
		return nil, &refusedError{answer.Refused}
	}
	_ = s.SetDeadline(time.Time{})
	n.noteHello(h)
	return newConn(n, sh.Conn, fr, h), nil
}

// mismatch returns what in the other side's Hello does not fit, or "".
func (n *Net) mismatch(h *peerv1.Hello) string {
	c := &n.cfg
	switch {
	case h.Protocol != Protocol:
		return fmt.Sprintf("protocol: node %q speaks %d, you speak %d", c.Self, Protocol, h.Protocol)
	case h.Cluster != c.Cluster:
		return fmt.Sprintf("cluster: node %q is in %q, you are in %q", c.Self, c.Cluster, clip(h.Cluster))
	case h.To != string(c.Self):
		return fmt.Sprintf("target: this is node %q, you asked for %q", c.Self, clip(h.To))
	case n.peer(quota.NodeID(h.From)) == nil:
		return fmt.Sprintf(unknownSender+"node %q does not know a node %q", c.Self, clip(h.From))
	case h.Ranges != c.Ranges:
		return fmt.Sprintf("ranges: node %q has %d, you have %d", c.Self, c.Ranges, h.Ranges)
	case h.Lane < peerv1.Lane_LANE_CONTROL || h.Lane > peerv1.Lane_LANE_SNAPSHOT:
		return fmt.Sprintf("lane: node %q supports control, data and snapshot; got %d", c.Self, h.Lane)
	case h.Level < c.Required():
		return fmt.Sprintf("level: the cluster is at feature level %d, node %q supports %d: upgrade that node", c.Required(), h.From, h.Level)
	}
	return c.Returns(quota.NodeID(h.From), quota.Incarnation(h.FirstIncarnation))
}

// outdated returns a refusal if a later process with the sender's name has been connected, or "".
// This node considers the sender's process ended; without the refusal that process would retry
// forever.
func (n *Net) outdated(h *peerv1.Hello) string {
	p := n.peer(quota.NodeID(h.From))
	if p == nil {
		return ""
	}
	if quota.Incarnation(h.Incarnation) >= p.newest() {
		return ""
	}
	return fmt.Sprintf("incarnation: a later process of node %q has connected to node %q; a data directory is for one process, and a copy of it must not run: stop both processes, and start the one to keep",
		clip(h.From), n.cfg.Self)
}

// duplicate returns a refusal if another process with the sender's name is connected, or "". The
// process that connected first stays: a copied data directory would vote twice. A process that
// has died stays connected only until its machine or TCP's timeout reports it.
func (n *Net) duplicate(h *peerv1.Hello) string {
	p := n.peer(quota.NodeID(h.From))
	if p == nil {
		return ""
	}
	current, addr, up := p.current()
	if !up || current == quota.Incarnation(h.Incarnation) {
		return ""
	}
	return fmt.Sprintf("duplicate: another process is node %q, at %s, and node %q is connected to it; a data directory is for one process, and no copy of it may run: stop one of the two",
		clip(h.From), addr, n.cfg.Self)
}

// noteHello records what an accepted Hello says about its sender.
func (n *Net) noteHello(h *peerv1.Hello) {
	if p := n.peer(quota.NodeID(h.From)); p != nil {
		p.noteHello(h)
	}
}

// Bounds, in bytes, of quoted text from the other side.
const (
	maxName     = 128
	maxSentence = 1024
)

func clip(s string) string { return cut(s, maxName) }

func cut(s string, most int) string { return s[:min(len(s), most)] }

// tlsRecord is the start of a TLS handshake. Read as the length of a Hello, it is too large.
var tlsRecord = []byte{22, 3}

func readHello(fr *frameReader) (*peerv1.Hello, error) {
	if b, _ := fr.r.Peek(len(tlsRecord)); bytes.Equal(b, tlsRecord) {
		return nil, errors.New("the other side uses TLS, and this node does not")
	}
	b, err := fr.next(maxHello)
	if err != nil {
		return nil, err
	}
	h := &peerv1.Hello{}
	if err := proto.Unmarshal(b, h); err != nil {
		return nil, errors.New("not a hello")
	}
	return h, nil
}

func writeMessage(nc net.Conn, m proto.Message) error {
	b, err := encode(m)
	if err != nil {
		return err
	}
	_, err = nc.Write(b)
	return err
}
