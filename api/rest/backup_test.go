package rest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apitest"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// backedUp is a node whose backup the test defines.
type backedUp struct {
	*apitest.Node
	backup func(ctx context.Context, w io.Writer, progress func(done, total int)) error
}

func (b *backedUp) Backup(ctx context.Context, w io.Writer, progress func(done, total int)) error {
	return b.backup(ctx, w, progress)
}

// serveBackup serves a backup and returns a client.
func serveBackup(t *testing.T, stall time.Duration, backup func(ctx context.Context, w io.Writer, progress func(done, total int)) error) quoratev1.BackupServiceClient {
	t.Helper()
	srv := grpc.NewServer()
	quoratev1.RegisterBackupServiceServer(srv, &api.BackupService{Node: &backedUp{backup: backup}, Stall: stall})
	l := bufconn.Listen(1 << 10)
	go srv.Serve(l)
	t.Cleanup(srv.Stop)
	conn, err := grpc.NewClient("passthrough:///test", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return quoratev1.NewBackupServiceClient(conn)
}

func TestBackupStream(t *testing.T) {
	want := bytes.Repeat([]byte("0123456789abcdef"), 100_000)
	c := serveBackup(t, time.Minute, func(_ context.Context, w io.Writer, progress func(done, total int)) error {
		progress(3, 9)
		_, err := w.Write(want)
		return err
	})
	stream, err := c.Backup(t.Context(), &quoratev1.BackupRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var got []byte
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Data) > api.BackupPiece || m.GroupsDone != 3 || m.GroupsTotal != 9 {
			t.Fatalf("%d bytes, %d of %d groups", len(m.Data), m.GroupsDone, m.GroupsTotal)
		}
		got = append(got, m.Data...)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes came, not those %d", len(got), len(want))
	}
}

type busy struct{ error }

func (busy) TooBusy() bool { return true }

func TestBackupFaults(t *testing.T) {
	for name, tt := range map[string]struct {
		backup func(ctx context.Context, w io.Writer, progress func(done, total int)) error
		want   codes.Code
	}{
		"busy":   {func(context.Context, io.Writer, func(int, int)) error { return busy{errors.New("busy")} }, codes.ResourceExhausted},
		"broken": {func(context.Context, io.Writer, func(int, int)) error { return errors.New("broken") }, codes.Internal},
		"a caller that takes nothing": {func(ctx context.Context, w io.Writer, _ func(int, int)) error {
			for ctx.Err() == nil {
				if _, err := w.Write(make([]byte, api.BackupPiece)); err != nil {
					return err
				}
			}
			return ctx.Err()
		}, codes.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			c := serveBackup(t, 50*time.Millisecond, tt.backup)
			stream, err := c.Backup(t.Context(), &quoratev1.BackupRequest{})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(200 * time.Millisecond) // longer than the server waits for its caller
			for err == nil {
				_, err = stream.Recv()
			}
			if status.Code(err) != tt.want {
				t.Errorf("%v; want %v", err, tt.want)
			}
		})
	}
}

func TestBackupOverHTTP(t *testing.T) {
	want := bytes.Repeat([]byte("0123456789abcdef"), 50_000)
	for name, tt := range map[string]struct {
		err    error
		before int // bytes before the error
		code   int
		broken bool
	}{
		"whole":             {nil, len(want), http.StatusOK, false},
		"busy":              {busy{errors.New("busy")}, 0, http.StatusServiceUnavailable, false},
		"failed on the way": {errors.New("n2 was lost"), len(want), http.StatusOK, true},
	} {
		t.Run(name, func(t *testing.T) {
			node := &backedUp{Node: apitest.New(t), backup: func(_ context.Context, w io.Writer, _ func(int, int)) error {
				_, err := w.Write(want[:tt.before])
				return errors.Join(err, tt.err)
			}}
			srv := httptest.NewServer(New(api.New(node, api.Options{}), Options{}).Handler)
			defer srv.Close()
			res, err := http.Get(srv.URL + "/v1/backup")
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			got, err := io.ReadAll(res.Body)
			if res.StatusCode != tt.code || (err != nil) != tt.broken || tt.code == http.StatusOK && !tt.broken && !bytes.Equal(got, want) {
				t.Errorf("%d, %d bytes, %v", res.StatusCode, len(got), err)
			}
		})
	}
}

// TestHeadOfBackup checks that HEAD answers with the headers of a backup and makes none.
func TestHeadOfBackup(t *testing.T) {
	node := &backedUp{Node: apitest.New(t), backup: func(context.Context, io.Writer, func(int, int)) error {
		t.Error("a backup is made")
		return nil
	}}
	srv := httptest.NewServer(New(api.New(node, api.Options{}), Options{}).Handler)
	defer srv.Close()
	for range 2 { // the second on the same connection
		res, err := http.Head(srv.URL + "/v1/backup")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "application/octet-stream" {
			t.Errorf("%v", res)
		}
	}
}
