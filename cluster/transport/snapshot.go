package transport

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/quota"
)

var errReplaced = errors.New("replaced by a newer connection")

// Snapshot sends header and size bytes of body on a connection of its own, and waits for the
// answer. The context bounds it, and so does progress: every 64 KiB must leave within ten seconds.
func (n *Net) Snapshot(ctx context.Context, to quota.NodeID, header *peerv1.Frame, size int64, body io.Reader) (*peerv1.Frame, error) {
	p := n.peer(to)
	if p == nil {
		return nil, fmt.Errorf("%w: no node %q is known", ErrUnreachable, to)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	l := &link{peer: p, lane: peerv1.Lane_LANE_SNAPSHOT}
	_, c, err := l.connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if !n.track(c) {
		return nil, ErrClosed
	}
	defer n.untrack(c)
	defer c.close(ErrClosed)
	defer context.AfterFunc(ctx, func() { c.close(ctx.Err()) })()
	if err := c.writeSnapshot(header, size, body); err != nil {
		return nil, fmt.Errorf("send snapshot to %s: %w", to, err)
	}
	a, err := c.fr.frame()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrLost, err)
	case a.Error != "":
		return nil, &RemoteError{Peer: to, Text: a.Error}
	}
	return a, nil
}

// writeSnapshot writes header, size and body.
func (c *conn) writeSnapshot(header *peerv1.Frame, size int64, body io.Reader) error {
	b, err := encodeFrame(header, 1, false)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(faultyWriter{c}, 256<<10)
	if _, err := w.Write(binary.BigEndian.AppendUint64(b, uint64(size))); err != nil {
		return err
	}
	if _, err := io.CopyN(w, body, size); err != nil {
		return err
	}
	return w.Flush()
}

// faultyWriter writes a snapshot, as far as faults let it pass.
type faultyWriter struct{ c *conn }

func (w faultyWriter) Write(b []byte) (int, error) {
	switch f := w.c.net.faultOf(w.c.peer, w.c.lane); {
	case f.Cut:
		return 0, errCut
	case f.Drop:
		return len(b), nil
	case f.Delay > 0:
		w.c.sleep(f.Delay)
	}
	return chunkWriter{w.c.nc}.Write(b)
}

// progressReader sets a deadline for each read, as chunkWriter does for writes.
type progressReader struct{ c *conn }

func (r progressReader) Read(b []byte) (int, error) {
	_ = r.c.nc.SetReadDeadline(time.Now().Add(writeLimit))
	return r.c.fr.r.Read(b)
}

// serveSnapshot receives one snapshot and answers it.
func (n *Net) serveSnapshot(c *conn) {
	defer c.close(ErrClosed)
	select {
	case n.snapshots <- struct{}{}:
		defer func() { <-n.snapshots }()
	default:
		c.answerNow(&peerv1.Frame{Error: fmt.Sprintf("busy: %d snapshots are coming in already", maxSnapshots)})
		return
	}
	_ = c.nc.SetReadDeadline(time.Now().Add(writeLimit))
	header, err := c.fr.frame()
	if err != nil {
		return
	}
	var size [8]byte
	if _, err := io.ReadFull(progressReader{c}, size[:]); err != nil {
		return
	}
	length := binary.BigEndian.Uint64(size[:])
	if length > 1<<62 {
		return
	}
	c.answerNow(n.cfg.HandleSnapshot(c.peer, header, io.LimitReader(progressReader{c}, int64(length))))
}

// answerNow writes the only answer of a snapshot connection.
func (c *conn) answerNow(f *peerv1.Frame) {
	if f == nil {
		return
	}
	b, err := encodeFrame(f, 1, true)
	if err == nil {
		_, err = faultyWriter{c}.Write(b)
	}
	if err != nil {
		c.net.log.Debug("snapshot not answered", "peer", c.peer, "err", err)
	}
}
