package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/api/apierr"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// Backuper copies the state of the cluster.
type Backuper interface {
	// Backup writes the state to w, and calls progress with the number of groups written. An error
	// whose TooBusy() bool is true means that the node is making another backup. Backup ends when
	// ctx ends or w returns an error.
	Backup(ctx context.Context, w io.Writer, progress func(done, total int)) error
}

// Bounds of a backup's stream.
const (
	BackupPiece = 256 << 10
	BackupStall = 30 * time.Second // a caller that takes no piece for this long is cut off
)

// BackupService copies the state of the cluster.
type BackupService struct {
	quoratev1.UnimplementedBackupServiceServer
	*core
	Node  Backuper
	Stall time.Duration
}

// Copy writes the state of the cluster to w.
func (s *BackupService) Copy(ctx context.Context, w io.Writer) error {
	return s.Node.Backup(ctx, w, func(int, int) {})
}

// Backup implements quoratev1.BackupServiceServer. It makes the backup on another goroutine, so
// that it can return while a caller receives nothing: returning ends the stream, and with it a
// blocked Send.
func (s *BackupService) Backup(_ *quoratev1.BackupRequest, stream quoratev1.BackupService_BackupServer) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	out := &backupStream{send: stream.Send}
	done := make(chan error, 1)
	go func() {
		w := bufio.NewWriterSize(out, BackupPiece)
		err := s.Node.Backup(ctx, w, func(done, total int) { out.done, out.total = done, total })
		done <- errors.Join(err, w.Flush())
	}()
	tick := time.NewTicker(s.Stall / 4)
	defer tick.Stop()
	for seen, since := int64(0), time.Now(); ; {
		select {
		case err := <-done:
			if err != nil {
				return BackupFault(err)
			}
			return nil
		case <-tick.C:
			if now := out.sent.Load(); now != seen || out.sending.Load() == 0 {
				seen, since = now, time.Now()
			} else if time.Since(since) > s.Stall {
				return &apierr.Error{
					Code: codes.DeadlineExceeded, HTTP: http.StatusGatewayTimeout, Reason: "TOO_SLOW",
					Detail: fmt.Sprintf("the caller read nothing for %v; write the backup to a faster disk or network", s.Stall),
				}
			}
		}
	}
}

// backupStream cuts the written bytes into messages.
type backupStream struct {
	send        func(*quoratev1.BackupResponse) error
	done, total int // groups; used only by the goroutine that makes the backup
	sending     atomic.Int32
	sent        atomic.Int64 // messages
}

// Write sends p in messages of at most BackupPiece bytes.
func (b *backupStream) Write(p []byte) (n int, err error) {
	for n < len(p) {
		piece := p[n:min(len(p), n+BackupPiece)]
		b.sending.Store(1)
		err := b.send(&quoratev1.BackupResponse{Data: piece, GroupsDone: uint32(b.done), GroupsTotal: uint32(b.total)})
		b.sending.Store(0)
		if err != nil {
			return n, err
		}
		b.sent.Add(1)
		n += len(piece)
	}
	return n, nil
}

// BackupFault maps an error of a backup to an API error.
func BackupFault(err error) *apierr.Error {
	var busy interface{ TooBusy() bool }
	if errors.As(err, &busy) && busy.TooBusy() {
		return &apierr.Error{Code: codes.ResourceExhausted, HTTP: http.StatusServiceUnavailable, Reason: "OVERLOADED", Detail: err.Error(), Retry: time.Second}
	}
	return apierr.From(err)
}
