package cluster

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/api/apierr"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/quota"
)

// leaderless is a node that cannot make a backup, because its cluster has no majority.
type leaderless struct {
	quoratev1.UnimplementedBackupServiceServer
}

func (leaderless) Backup(*quoratev1.BackupRequest, quoratev1.BackupService_BackupServer) error {
	return apierr.From(&quota.NoLeaderError{Reason: "no leader of range 3 answers"})
}

// TestBackupWithoutMajority: one node answers that there is no leader, and the next one is dead. The command
// reports the answer, and does not claim that no node answers.
func TestBackupWithoutMajority(t *testing.T) {
	listen := func() (net.Listener, string) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l, l.Addr().String()
	}
	alive, first := listen()
	dead, second := listen()
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer(grpc.StreamInterceptor(func(s any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) error {
		err := h(s, ss)
		if of, ok := errors.AsType[*apierr.Error](err); ok {
			return of.GRPCStatus().Err()
		}
		return err
	}))
	quoratev1.RegisterBackupServiceServer(srv, leaderless{})
	go srv.Serve(alive) // until Stop
	t.Cleanup(srv.Stop)
	b := backupper{Targets: remote.Targets{Addrs: []string{first, second}}, out: filepath.Join(t.TempDir(), "monday.quorate")}
	err := b.run(t.Context(), io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "no leader of range 3 answers") || !strings.Contains(err.Error(), "a majority of the nodes") {
		t.Errorf("the error is %v, want the answer of the first node, and what to do", err)
	}
}
